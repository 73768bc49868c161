"""Two kernels side by side: what they cost, and how many times more or less."""

from typing import NamedTuple

from course_lib import text
from course_lib.compiler.report import Report
from course_lib.viz import core_units, draw, terminal
from course_lib.viz.picture import Picture

_NAME, _BAR, _VALUE = 130, 240, 130
_BAR_HEIGHT = 13
_ROW = 2 * _BAR_HEIGHT + 14
_LEAST_SLOTS = 0.02  # a unit that neither kernel uses more than this is left out


class Measure(NamedTuple):
    """One row: a value of each kernel as a number and in words, and the first compared with the second."""

    name: str
    first: float | None
    second: float | None
    shown: tuple[str, str]
    words: str


def picture(reports: dict[str, Report]) -> Picture:
    """The picture in all its forms, for a notebook or a terminal."""
    return Picture(svg=svg(reports), text=as_text(reports))


def svg(reports: dict[str, Report]) -> str:
    """Two named Reports as pairs of bars. Raises ValueError for any other number of them."""
    return draw.card(panel(reports), f"{' and '.join(reports)} compared", sentence(reports))


def panel(reports: dict[str, Report]) -> draw.Panel:
    """The bars with heading and sentence, to be part of a larger picture."""
    first, second = _two(reports)
    head = [draw.paragraph(sentence(reports), size=13, bold=True), draw.Panel(*_key(first, second))]
    rows = [_row(measure) for measure in measures(reports)]
    return draw.stacked([*head, *rows], 4)


def as_text(reports: dict[str, Report]) -> str:
    """The bars in block characters."""
    first, second = (text.cut(name, 16) for name in _two(reports))
    rows = []
    for measure in measures(reports):
        most = max(measure.first or 0, measure.second or 0)
        for n, (name, value) in enumerate(((first, measure.first), (second, measure.second))):
            bar = terminal.bar(value / most, 20) if value and most else " " * 20
            rows.append([measure.name if n == 0 else "", name, bar, measure.shown[n], measure.words if n == 0 else ""])
    return "\n".join([text.folded(sentence(reports)), *(f"  {line}" for line in text.table(rows, {3}, 92))])


def sentence(reports: dict[str, Report]) -> str:
    """Which is faster, and by how much."""
    first, second = _two(reports)
    refused = [name for name, report in reports.items() if not report.ok]
    if refused:
        return f"{' and '.join(refused)} did not compile, so there is no time to compare."
    a, b = reports[first], reports[second]
    for x, y, show in ((a.seconds, b.seconds, text.duration), (a.cycles, b.cycles, _cycles)):
        if x is not None and y is not None:
            ratio = text.compared(x, y, more="slower", less="faster")
            how = "as fast as" if ratio == "the same" else f"{ratio} than"
            return f"{first} is predicted to be {how} {second}: {show(x)} against {show(y)}."
    return f"There is no predicted time of both {first} and {second}."


def measures(reports: dict[str, Report]) -> list[Measure]:
    """The rows; what neither report holds is left out."""
    first, second = _two(reports)
    a, b = reports[first], reports[second]
    rows = [
        _measure("time", a.seconds, b.seconds, text.duration, "longer", "shorter"),
        _measure("cycles", a.cycles, b.cycles, text.count),
        _measure("HBM bytes", a.hbm_bytes, b.hbm_bytes, text.size),
        _measure("VMEM", a.vmem_bytes, b.vmem_bytes, text.size, less="less"),
        _measure("bundles", a.bundles, b.bundles, text.count),
        _measure("spills", a.spills, b.spills, text.count),
        *(
            _measure(
                f"{unit} slots",
                a.slots.get(unit),
                b.slots.get(unit),
                text.percent,
                "fuller",
                "emptier",
            )
            for unit in core_units.in_order({**a.slots, **b.slots})
            if max(a.slots.get(unit, 0), b.slots.get(unit, 0)) >= _LEAST_SLOTS
        ),
    ]
    return [row for row in rows if row.first is not None or row.second is not None]


def _two(reports: dict[str, Report]) -> list[str]:
    if len(reports) != 2:
        raise ValueError(
            f"diff: reports has {len(reports)} entries; it compares exactly two. For more, see comparison."
        )
    return list(reports)


def _cycles(n: int) -> str:
    return f"{text.count(n)} cycles"


def _measure(name, first, second, show, more="more", less="fewer") -> Measure:
    return Measure(name, first, second, (show(first), show(second)), text.compared(first, second, more, less))


def _row(measure: Measure) -> draw.Panel:
    most = max(measure.first or 0, measure.second or 0)
    body = draw.line(0, 0, draw.INNER, 0, draw.TRACK) + draw.label(0, _ROW / 2 + 4, measure.name, _NAME - 8)
    for n, value in enumerate((measure.first, measure.second)):
        top = 7 + n * (_BAR_HEIGHT + 1)
        if value:
            body += _bar(n, _NAME, top, max(_BAR * value / most, 1))
        fill = draw.INK if value is not None else draw.MUTED
        body += draw.label(_NAME + _BAR + 12, top + 11, measure.shown[n], _VALUE - 10, fill=fill)
    room = draw.INNER - _NAME - _BAR - _VALUE - 12
    return draw.Panel(body + draw.label(draw.INNER, _ROW / 2 + 4, measure.words, room, bold=True, anchor="end"), _ROW)


def _bar(n: int, left: float, top: float, width: float) -> str:
    """Plain blue for the first kernel, hatched orange for the second."""
    bar = draw.box(left, top, width, _BAR_HEIGHT, (draw.BLUE, draw.ORANGE)[n])
    return bar + (draw.hatch(left, top, width, _BAR_HEIGHT) if n and width >= 4 else "")


def _key(first: str, second: str) -> tuple[str, float]:
    parts, left = [], float(_NAME)
    for n, name in enumerate((first, second)):
        parts.append(_bar(n, left, 2, 24) + draw.label(left + 32, 13, name, 200))
        left += 32 + min(draw.width_of(name), 200) + 28
    right = draw.label(draw.INNER, 13, f"{first}, compared", 150, fill=draw.MUTED, anchor="end")
    return "".join(parts) + right, 20
