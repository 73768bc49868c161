"""Three roofs on log axes (compute, HBM, and the least cost of a grid step) with kernels under them."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from course_lib import chips, roofline, text, vocabulary
from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture
from course_lib.viz.roof_plot import axes, names

_NARROWER = 2.0  # the MXU multiplies int8 twice as fast as bf16
_IMPOSSIBLE = 1.005  # times what the chip can do
_FIELD = names.Box(axes.LEFT, 0, axes.RIGHT, axes.BOTTOM)  # where words may stand
_FAR = 25  # pixels below its mark from which a name gets a line to it
_NAMED = 8  # with more points, published ones have their names only in tooltips
_ABSENT = "No kernel to place: a point needs FLOPs, HBM bytes and a time."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """One kernel under the roofs, predicted or measured."""

    name: str
    flops: float
    hbm_bytes: float
    seconds: float
    measured_by: str = ""  # who measured it; "" if our model predicts it
    steps_s: float = 0  # fixed cost of all grid steps, which makes the third roof

    def __post_init__(self):
        for field in ("flops", "hbm_bytes", "seconds"):
            if not getattr(self, field) > 0:
                wrong = f"{self.name}: {field}={getattr(self, field)!r}"
                raise ValueError(f"{wrong} cannot be shown on log axes, where values must be greater than 0.")

    @property
    def intensity(self) -> float:
        """FLOPs per byte moved."""
        return self.flops / self.hbm_bytes

    @property
    def flop_rate(self) -> float:
        """FLOP/s."""
        return self.flops / self.seconds

    @property
    def step_rate(self) -> float:
        """FLOP/s that the cost of the grid steps allows: the third roof."""
        return self.flops / self.steps_s if self.steps_s else math.inf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Roofs:
    """What one core of a chip can do at best."""

    chip: str
    flop_rate: float  # FLOP/s of the MXUs
    bandwidth: float  # bytes/s of the HBM
    dtype: str = "bf16"  # operands for which ``flop_rate`` holds

    @property
    def ridge(self) -> float:
        """FLOPs/byte above which compute binds instead of HBM."""
        return self.flop_rate / self.bandwidth

    def at(self, intensity: float) -> float:
        """Return the FLOP/s that compute and HBM allow at an intensity."""
        return min(self.flop_rate, intensity * self.bandwidth)


def of_chip(*, chip: str = "v5e") -> Roofs:
    """Return the roofs of one core of a chip for bf16 operands. On a v5p, it has the HBM of both cores to itself."""
    made_of = chips.chip(chip)
    return Roofs(chip=chip, flop_rate=made_of.bf16_flops, bandwidth=made_of.program_bandwidth)


def point(name: str, prediction: roofline.Prediction) -> Point:
    """Return the point of a prediction, with its third roof: grid steps times the cost of one on this chip.

    Raises ValueError if the prediction lacks FLOPs, HBM bytes or a time.
    """
    missing = [field for field in ("flops", "hbm_bytes", "seconds") if not getattr(prediction, field)]
    if missing:
        raise ValueError(f"{name} cannot be placed under the roofs: its prediction has no {' and no '.join(missing)}.")
    return Point(
        name=name,
        flops=prediction.flops,
        hbm_bytes=prediction.hbm_bytes,
        seconds=prediction.seconds,
        steps_s=prediction.steps_s,
    )


def three_roofs(predictions: Mapping[str, roofline.Prediction], measured: Sequence[Point] = ()) -> Picture:
    """Plot predictions by name, the learner's first, and measured points beside them, for a notebook or a terminal.

    Raises ValueError if there is no prediction, if predictions are for different chips, or if a point in ``measured``
    does not say who measured it.
    """
    chip_names = sorted({prediction.chip for prediction in predictions.values()})
    if len(chip_names) != 1:
        raise ValueError(
            f"predictions are for {', '.join(chip_names) or 'no chip'}, but the roofs are those of one chip."
        )
    for each in measured:
        if not each.measured_by:
            raise ValueError(f"three_roofs: {each.name} among measured= lacks measured_by='who measured it'.")
    points = [*(point(name, prediction) for name, prediction in predictions.items()), *measured]
    roofs = of_chip(chip=chip_names[0])
    return Picture(svg=svg(points, roofs), text=as_text(points, roofs))


def svg(points: Sequence[Point], roofs: Roofs) -> str:
    """Draw the plot as a card. Predicted points are filled, measured ones hollow."""
    return draw.card(panel(points, roofs), f"Rooflines of one {roofs.chip} core", sentence(points, roofs))


def panel(points: Sequence[Point], roofs: Roofs) -> draw.Panel:
    """Draw the plot with heading and key, for a larger picture."""
    at = _axes(points, roofs)
    count = "Three" if _has_third_roof(at, points) else "Two"
    head = draw.heading(f"{count} roofs of {roofs.chip}", "FLOP/s against FLOPs for each byte moved to or from HBM")
    body = axes.grid(at, "FLOPs/byte", text.flop_rate)
    body += (
        _roof_lines(at, roofs)
        + _third_roof(at, points, roofs)
        + _slope_words(at, points, roofs)
        + _marks(at, points, roofs)
    )
    field = draw.Panel(draw.moved(draw.Panel(body, 0), 0, 10), axes.BOTTOM + 56)
    return draw.stacked([head, field, _key(points), draw.paragraph(sentence(points, roofs), fill=draw.MUTED)])


def as_text(points: Sequence[Point], roofs: Roofs) -> str:
    """Return the points as a table, with the share that each reaches of the compute and HBM roof above it."""
    lines = [
        f"{roofs.chip}: {_flat(roofs)}; HBM: {text.byte_rate(roofs.bandwidth)}; they meet at "
        f"{text.intensity(roofs.ridge)}.",
        *text.table([_text_row(p, roofs) for p in points], right={1, 2, 3}, indent="  ", gives_way=0),
        *(f"  {p.name}: {_source(p)}" for p in points if p.measured_by),
        sentence(points, roofs),
    ]
    return text.folded("\n".join(lines))


def _flat(roofs: Roofs) -> str:
    """Return the words on the compute roof."""
    return f"{vocabulary.COMPUTE} (MXU, {roofs.dtype}): {text.flop_rate(roofs.flop_rate)}"


def _text_row(p: Point, roofs: Roofs) -> list[str]:
    share = text.percent(p.flop_rate / roofs.at(p.intensity))
    kind = vocabulary.MEASURED if p.measured_by else vocabulary.MODEL
    return [p.name, text.intensity(p.intensity), text.flop_rate(p.flop_rate), share, kind]


def _source(p: Point) -> str:
    """Return the source of a figure."""
    return f"{vocabulary.MEASURED} by {p.measured_by}" if p.measured_by else vocabulary.MODEL


def sentence(points: Sequence[Point], roofs: Roofs) -> str:
    """Say where the first point lies, and under which roof."""
    if not points:
        return _ABSENT
    first = points[0]
    share = text.percent(first.flop_rate / roofs.at(first.intensity))
    roof = f"{vocabulary.COMPUTE if first.intensity >= roofs.ridge else vocabulary.HBM} roof"
    rate = text.flop_rate(first.flop_rate)
    words = f"{first.name}, {_source(first)}, reaches {rate}, {share} of the {roof} above it."
    if first.flop_rate > _IMPOSSIBLE * roofs.at(first.intensity):
        if first.intensity >= roofs.ridge and first.flop_rate < _NARROWER * roofs.flop_rate:
            return f"{words} The roof drawn is that of {roofs.dtype} operands; int8's can be twice as high."
        return f"{words} That is more than the chip can do: its FLOPs, bytes or seconds are wrong."
    if first.step_rate < roofs.at(first.intensity):
        words += f" Its grid steps alone keep it below {text.flop_rate(first.step_rate)}."
    return words


def _axes(points: Sequence[Point], roofs: Roofs) -> axes.Axes:
    """Choose axes wide enough for the points, their third roofs, and both sides of the ridge."""
    xs = [roofs.ridge / 30, roofs.ridge * 8, *(p.intensity for p in points)]
    ys = [roofs.flop_rate / 30, *(p.flop_rate for p in points)]
    ys += [p.step_rate for p in points[:1]]
    most = roofs.flop_rate * 1.5  # room for the words on the roof
    return axes.Axes(x=axes.decades(xs), y=axes.decades([*(min(y, 6 * most) for y in ys), most]))


def _roof_lines(at: axes.Axes, roofs: Roofs) -> str:
    """Draw the HBM slope up to the ridge, and the compute roof beyond it."""
    (x0, y0), (x1, y1), (x2, _) = _bent_line(at, roofs)
    ridge = f"ridge {text.intensity(roofs.ridge)}"
    return (
        f'<path d="M{draw.number(x0)} {draw.number(y0)}L{draw.number(x1)} {draw.number(y1)}H{draw.number(x2)}" '
        f'stroke="{draw.INK}" stroke-width="2" fill="none"/>'
        + draw.line(x1, y1, x1, axes.BOTTOM, draw.GREY, dash="2 4")
        + draw.label(x1 + 6, axes.BOTTOM - 8, ridge, x2 - x1, fill=draw.MUTED, halo=True)
        + draw.label(x2, y1 - 12, _flat(roofs), axes.WIDTH, bold=True, anchor="end")
    )


def _slope_words(at: axes.Axes, points: Sequence[Point], roofs: Roofs) -> str:
    """Write the bandwidth along the slope, as far as possible from the words of the third roof."""
    (x0, y0), (x1, y1), _ = _bent_line(at, roofs)
    third = at.top(points[0].step_rate) if _has_third_roof(at, points) else 2 * axes.BOTTOM
    share = max((0.42, 0.66, 0.22), key=lambda share: min(abs(y0 + (y1 - y0) * share - third), 50))
    x, y = x0 + (x1 - x0) * share, y0 + (y1 - y0) * share
    slope = math.degrees(math.atan2(y1 - y0, x1 - x0))
    said = f"{vocabulary.HBM} {text.byte_rate(roofs.bandwidth)}"
    words = draw.label(0, -7, said, 180, bold=True, anchor="middle", halo=True)
    return f'<g transform="translate({draw.number(x)} {draw.number(y)}) rotate({draw.number(slope)})">{words}</g>'


def _bent_line(at: axes.Axes, roofs: Roofs) -> list[tuple[float, float]]:
    """Return, in pixels, where the HBM slope starts, where it meets the compute roof, and where that ends."""
    start = max(10.0 ** at.x[0], 10.0 ** at.y[0] / roofs.bandwidth)
    y1 = at.top(roofs.flop_rate)
    return [
        (at.left(start), at.top(start * roofs.bandwidth)),
        (at.left(roofs.ridge), y1),
        (axes.RIGHT, y1),
    ]


def _has_third_roof(at: axes.Axes, points: Sequence[Point]) -> bool:
    return bool(points) and 10.0 ** at.y[0] <= points[0].step_rate <= 10.0 ** at.y[1]


def _third_roof(at: axes.Axes, points: Sequence[Point], roofs: Roofs) -> str:
    """Draw the rate that the first kernel could not exceed if its steps cost nothing but latency and issue."""
    if not _has_third_roof(at, points):
        return ""
    y, (words, place) = at.top(points[0].step_rate), _third_words(at, points, roofs)
    line = draw.line(axes.LEFT, y, axes.RIGHT, y, draw.RED, width=1.5, dash="8 4")
    return line + draw.label(place.x, place.y, words, axes.WIDTH, bold=True, anchor=place.anchor, halo=True)


def _third_words(at: axes.Axes, points: Sequence[Point], roofs: Roofs) -> tuple[str, names.Name]:
    """Return the words on the third roof, and their place: the end of it with the least in the way."""
    whose = f"{vocabulary.STEPS} of {points[0].name}" if len(points) > 1 else vocabulary.STEPS
    words, y = f"{whose}: {text.flop_rate(points[0].step_rate)}", at.top(points[0].step_rate)
    ends = [(axes.LEFT + 6, "start"), (axes.RIGHT, "end")]
    tried = [names.at(x, y + down, anchor, words, bold=True) for down in (-6, 16) for x, anchor in ends]
    taken = [_flat_box(at, roofs)] + [names.around(at.left(p.intensity), at.top(p.flop_rate), 12) for p in points]
    return words, names.freest(tried, _FIELD, taken, _bent_line(at, roofs))


def _flat_box(at: axes.Axes, roofs: Roofs) -> names.Box:
    """Return the box of the words on the compute roof."""
    top = at.top(roofs.flop_rate)
    return names.Box(axes.RIGHT - draw.width_of(_flat(roofs), 12, True), top - 25, axes.RIGHT, top)


def _marks(at: axes.Axes, points: Sequence[Point], roofs: Roofs) -> str:
    places = [(at.left(p.intensity), at.top(p.flop_rate)) for p in points]
    shapes = "".join(_mark(_kind(n, p), *places[n], _figures(p)) for n, p in enumerate(points))
    shown = [n for n, p in enumerate(points) if len(points) <= _NAMED or not p.measured_by]
    said = [draw.shortened(points[n].name, axes.WIDTH / 2) for n in shown]
    taken = [_flat_box(at, roofs)]
    if _has_third_roof(at, points):
        third, (_, words) = at.top(points[0].step_rate), _third_words(at, points, roofs)
        taken += [names.Box(axes.LEFT, third - 2, axes.RIGHT, third + 2), words.box]
    written = names.placed([places[n] for n in shown], said, _FIELD, _bent_line(at, roofs), taken)
    labels = (
        _leader(places[n], place) + draw.label(place.x, place.y, words, axes.WIDTH, anchor=place.anchor, halo=True)
        for n, words, place in zip(shown, said, written, strict=True)
    )
    return "".join(labels) + shapes


def _leader(mark: tuple[float, float], place: names.Name) -> str:
    """Draw a thin line to a name that lies far from its mark."""
    return draw.line(*mark, place.x, place.y - 10, draw.GREY) if place.y - mark[1] > _FAR else ""


def _kind(n: int, p: Point) -> str:
    return "measured" if p.measured_by else "predicted first" if n == 0 else "predicted"


def _mark(kind: str, x: float, y: float, title: str = "") -> str:
    """Draw a filled circle for the first prediction, a filled square for others, a hollow diamond for a measurement."""
    if kind == "measured":
        # Larger than a point and hollow, so that a measurement does not cover a prediction in the same place.
        shape = f'path d="M{draw.number(x)} {draw.number(y - 10)}l10 10l-10 10l-10 -10z"'
        look = f'fill="none" stroke="{draw.INK}" stroke-width="1.8"'
    elif kind == "predicted":
        shape = f'rect x="{draw.number(x - 5)}" y="{draw.number(y - 5)}" width="10" height="10"'
        look = f'fill="{draw.ORANGE}" stroke="{draw.INK}"'
    else:
        shape = f'circle cx="{draw.number(x)}" cy="{draw.number(y)}" r="6"'
        look = f'fill="{draw.BLUE}" stroke="{draw.PAPER}"'
    return f'<{shape} class="{kind}" {look}><title>{draw.escape(title or kind)}</title></{shape.split()[0]}>'


def _figures(p: Point) -> str:
    rates = f"{text.intensity(p.intensity)}, {text.flop_rate(p.flop_rate)}, {text.duration(p.seconds)}"
    return f"{p.name}, {_source(p)}: {rates}"


def _key(points: Sequence[Point]) -> draw.Panel:
    """Draw the meaning of the marks in a row."""
    kinds = [_kind(n, p) for n, p in enumerate(points)]
    sources = "; ".join(dict.fromkeys(p.measured_by for p in points if p.measured_by))
    meanings = {
        "predicted first": f"{draw.shortened(points[0].name, 200)}, {vocabulary.MODEL}" if points else "",
        "predicted": f"others, {vocabulary.MODEL}",
        "measured": f"{vocabulary.MEASURED} by {sources}",
    }
    parts, left, top = [], float(axes.LEFT), 0
    for kind, words in meanings.items():
        if kind in kinds:
            if left > axes.LEFT and left + 16 + draw.width_of(words) > draw.INNER:
                left, top = float(axes.LEFT), top + 20
            parts.append(_mark(kind, left, top + 9) + draw.label(left + 16, top + 13, words, draw.INNER - left - 16))
            left += draw.width_of(words) + 40
    return draw.Panel("".join(parts), top + 28 if parts else 0)
