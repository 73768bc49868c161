"""A plot of the time of attention against sequence length, fused and unfused, under the compute and HBM roofs."""

import math
from collections.abc import Callable, Sequence

from course_lib import chips, text, vocabulary
from course_lib.viz.choices.attention_costs import LENGTHS, Layer, fewer, fused, said, turn, unfused
from course_lib.viz.choices.choices import Choices, Group, State
from course_lib.viz.common import draw

SIZES = (64, 128, 256)  # of a head
MOST_HEADS = 1024
_LEFT, _RIGHT, _HIGH, _SIZE = 70, draw.INNER - 130, 250, 14  # pixels of the field, whose top is 0; of letters
_DOT, _SQUARE = "M-5 0A5 5 0 0 1 5 0A5 5 0 0 1 -5 0z", "M-4.5 -4.5H4.5V4.5H-4.5z"
_ROWS = (512, 2048, 8192, 32768)  # lengths in the table
_COLUMNS = (70, 190, 300, 420, 530, 684)  # pixels at which the columns of the table end


def attention_roof(*, chip: str = "v5e", heads: int = 8, itemsize: int = 2) -> Choices:
    """Plot the time of attention forward in one layer against sequence length T, fused and unfused, on log axes.

    The reader chooses the head size, and full or causal scores. ``heads``: of one sequence; ``itemsize``: bytes of an
    element of q, k, v and o, 1, 2 or 4. A time is the longer of compute, at the peak for bf16 operands, and HBM bytes,
    at full bandwidth, for one core, *predicted (model)*. The unfused kernels also write and read T x T scores and
    softmax weights in float32. Nothing is compiled or run. Raises ValueError for an unknown chip and for other numbers.
    """
    made_of = chips.chip(chip)
    if type(heads) is not int or not 1 <= heads <= MOST_HEADS:
        raise ValueError(f"attention_roof: heads={heads!r} is not a number of heads; it may be 1 to {MOST_HEADS:,}.")
    if type(itemsize) is not int or itemsize not in (1, 2, 4):
        raise ValueError(
            f"attention_roof: itemsize={itemsize!r} is not the size of an element; it may be 1, 2 or 4 bytes."
        )
    layers = [Layer(made_of, heads, itemsize, size, causal) for size in SIZES for causal in (False, True)]
    ends = [math.log10(cost(layer, n)) for layer in layers for n in LENGTHS for cost in (_compute, _slowest)]
    decades = math.floor(min(ends)), math.ceil(max(ends))

    def state(size: int, scores: int) -> State:
        layer = layers[2 * size + scores]
        return State(_drawn(layer, decades), said(layer))

    groups = [Group("head size", tuple(map(str, SIZES))), Group("scores", ("full", "causal"))]
    return Choices("Attention under the roofs", groups, state, [1, 0])


def _compute(layer: Layer, length: int) -> float:
    return fused(layer, length).compute_s


def _slowest(layer: Layer, length: int) -> float:
    return unfused(layer, length).seconds


def _drawn(layer: Layer, decades: tuple[int, int]) -> draw.Panel:
    low, high = decades
    step = (_RIGHT - _LEFT) / math.log2(LENGTHS[-1] / LENGTHS[0])

    def place(length: float, seconds: float) -> tuple[float, float]:
        x = _LEFT + step * math.log2(length / LENGTHS[0])
        return x, _HIGH * (high - math.log10(seconds)) / (high - low)

    at, compute = turn(layer), [place(n, fused(layer, n).compute_s) for n in LENGTHS]
    apart = [place(n, unfused(layer, n).seconds) for n in LENGTHS]
    bent = sorted({*LENGTHS, max(at, LENGTHS[0])})
    whole = [place(n, fused(layer, n).seconds) for n in bent]
    body = _axes(place, decades, step) + _line(apart, draw.RED, 2.5) + _line(whole, draw.BLUE, 4)
    body += _line(compute, draw.INK, 1.8, "6 4")
    body += "".join(_mark(x, y, draw.RED, _SQUARE) for x, y in apart)
    body += "".join(_mark(*place(n, fused(layer, n).seconds), draw.BLUE, _DOT) for n in LENGTHS)
    body += _names([(apart[-1][1], "unfused"), (whole[-1][1], "fused"), (compute[-1][1], "compute")])
    if at > LENGTHS[0]:
        x, y = place(at, fused(layer, at).seconds)
        ring = f'<circle r="9" fill="none" stroke="{draw.INK}" stroke-width="2"/>'
        words = f"T = {at:,.0f}: {vocabulary.HBM} = {vocabulary.COMPUTE}"
        body += draw.moved(draw.Panel(ring, 0), x, y)
        body += draw.label(x + 14, y + 22, words, draw.INNER - x - 14, size=_SIZE, bold=True, halo=True)
    flops = f"{2 if layer.causal else 4} x T x T x {layer.size} FLOPs a head"
    head = f"time, {vocabulary.MODEL}; the dashed line is {vocabulary.COMPUTE} alone, {flops}"
    chart = draw.Panel(draw.moved(draw.Panel(body, 0), 0, 8), _HIGH + 56)
    return draw.stacked([draw.paragraph(head, size=_SIZE, fill=draw.MUTED), chart, _table(layer)], gap=4)


def _axes(place: Callable[[float, float], tuple[float, float]], decades: tuple[int, int], step: float) -> str:
    body, style = "", {"size": _SIZE, "fill": draw.MUTED}
    for power in range(decades[0], decades[1] + 1):
        y = place(LENGTHS[0], 10.0**power)[1]
        body += draw.line(_LEFT, y, _RIGHT, y, draw.TRACK)
        body += draw.label(_LEFT - 8, y + 5, text.duration(10.0**power), _LEFT - 8, anchor="end", **style)
    for length in LENGTHS:
        x = place(length, 1)[0]
        body += draw.line(x, 0, x, _HIGH, draw.TRACK)
        body += draw.label(x, _HIGH + 19, f"{length:,}", step, anchor="middle", **style)
    return body + draw.label((_LEFT + _RIGHT) / 2, _HIGH + 40, "sequence length T", anchor="middle", **style)


def _line(places: Sequence[tuple[float, float]], color: str, width: float, dash: str = "") -> str:
    path = "L".join(f"{draw.number(x)} {draw.number(y)}" for x, y in places)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="{width}"{dashes}/>'


def _mark(x: float, y: float, color: str, mark: str) -> str:
    return draw.moved(draw.Panel(f'<path d="{mark}" fill="{color}"/>', 0), x, y)


def _names(ends: Sequence[tuple[float, str]]) -> str:
    """Draw the names of the lines, given the heights where they end, one below the other."""
    body, low = "", -math.inf
    for y, name in sorted(ends):
        low = max(low + 20, y)
        body += draw.line(_RIGHT + 8, y, _RIGHT + 22, low, draw.MUTED)
        body += draw.label(_RIGHT + 27, low + 5, name, draw.INNER - _RIGHT - 27, size=_SIZE, bold=True)
    return body


def _table(layer: Layer) -> draw.Panel:
    """Draw times, what binds, and the ratio of bytes at some lengths."""
    rows = [("T", "fused", "bound by", "unfused", "bound by", "fewer bytes")]
    for length in _ROWS:
        costs = [(text.duration(cost.seconds), cost.bound) for cost in (fused(layer, length), unfused(layer, length))]
        rows.append((f"{length:,}", *costs[0], *costs[1], fewer(layer, length)))
    panels = []
    for number, row in enumerate(rows):
        cells = zip(row, _COLUMNS, strict=True)
        body = "".join(draw.label(x, 13, each, 110, size=_SIZE, bold=not number, anchor="end") for each, x in cells)
        panels.append(draw.Panel(body, 22))
    return draw.stacked(panels)
