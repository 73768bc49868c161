"""A widget that shows up to which density a sparse matmul is faster than the dense one."""

from collections.abc import Callable, Mapping, Sequence

from course_lib import text, vocabulary
from course_lib.compiler import Report
from course_lib.viz.choices.choices import Choices, Group, State
from course_lib.viz.choices.density_data import Dial, Sparse, against, break_evens, checked, listed, mb, said, side, us
from course_lib.viz.common import draw

_LEFT, _RIGHT, _HIGH = 64, draw.INNER - 210, 240  # pixels of the field; the names of the lines stand to its right
_SIZE, _ROW, _RING = 14, 24, 9
# A color, dashes and a mark, so that color alone distinguishes no two lines. The mark is a path around (0, 0).
_STYLES = (
    (draw.BLUE, "", "M-5 0A5 5 0 0 1 5 0A5 5 0 0 1 -5 0z"),
    (draw.RED, "9 4", "M-4.5 -4.5H4.5V4.5H-4.5z"),
    (draw.GREEN, "3 3", "M0 -6.5L6.5 0L0 6.5L-6.5 0z"),
    (draw.PURPLE, "12 3 3 3", "M0 -6L6 5H-6z"),
)
# Of the table, after the names: pixels from the left, and which end of a cell's words lies there.
_COLUMNS = ((282, "end"), (360, "end"), (412, "end"), (428, "start"), (572, "start"))


def density_dial(curves: Mapping[str, Sequence[Sparse]], dense: Report, *, shown: float | None = None) -> Choices:
    """Plot the time of sparse matmuls against density beside the dense one; the reader chooses a density.

    ``curves``: name -> its points, up to 4 curves of at least two points each, all at the same densities, which
    increase; ``dense``: the report on the dense matmul; ``shown``: the density shown first, None for the middle one.
    Times are in us, *predicted (compiler)*, and traffic is in MB, 10**6 bytes. A curve breaks even where the straight
    line between two of its points meets the time of the dense matmul. Nothing is compiled or run here. Raises
    ValueError for curves of another form, for a report without a predicted time, and for a density ``shown`` that is
    not among those of the curves.
    """
    dial = checked(curves, dense)
    if shown is not None and shown not in dial.densities:
        may = f"None or one of the densities, {listed(dial.densities)}"
        raise ValueError(f"density_dial: shown={shown!r} is not a density of the curves: it must be {may}.")
    at = len(dial.densities) // 2 if shown is None else dial.densities.index(shown)
    group = Group("density", tuple(map(dial.percent, dial.densities)))
    return Choices("Time against density", [group], lambda n: State(_drawn(dial, n), said(dial, n)), [at])


def _drawn(dial: Dial, at: int) -> draw.Panel:
    title = draw.paragraph(f"time, us, {vocabulary.COMPILER}", size=_SIZE, fill=draw.MUTED)
    return draw.stacked([title, _chart(dial, at), _table(dial, at)], gap=8)


def _chart(dial: Dial, at: int) -> draw.Panel:
    times = {name: [point.report.seconds for point in curve] for name, curve in dial.curves.items()}
    most = 1.06 * max(dial.dense.seconds, *(second for curve in times.values() for second in curve))
    x, y = (lambda d: _LEFT + (_RIGHT - _LEFT) * d / dial.densities[-1]), (lambda s: _HIGH * (1 - s / most))
    even = y(dial.dense.seconds)
    body = _axes(dial, at, most * 1e6, x)
    body += draw.line(x(dial.densities[at]), 0, x(dial.densities[at]), _HIGH, draw.INK, width=1.5, dash="2 3")
    body += draw.line(_LEFT, even, _RIGHT, even, draw.INK, width=2)
    for curve, style in zip(times.values(), _STYLES, strict=False):
        body += _curve([(x(d), y(s)) for d, s in zip(dial.densities, curve, strict=True)], *style)
    body += _names([(y(curve[-1]), name) for name, curve in times.items()] + [(even, "dense")])
    found = sorted(density for curve in dial.curves.values() for density in break_evens(curve, dial.dense))
    flags, rows = _flags([(x(density), f"break-even {dial.percent(density)}") for density in found], even)
    return draw.Panel(draw.moved(draw.Panel(body + flags, 0), 0, rows * 20), rows * 20 + _HIGH + 44)


def _axes(dial: Dial, at: int, most: float, x: Callable[[float], float]) -> str:
    """Draw the axes up to ``most`` us and the last density, the chosen density in bold; ``x``: density -> pixels."""
    body, step, tick = "", draw.stride(most, 6), 0.0
    while tick <= most:
        top = _HIGH * (1 - tick / most)
        body += draw.line(_LEFT, top, _RIGHT, top, draw.TRACK if tick else draw.MUTED)
        words = text.significant(tick, 3)
        body += draw.label(_LEFT - 8, top + 5, words, _LEFT - 8, size=_SIZE, fill=draw.MUTED, anchor="end")
        tick += step
    taken: list[tuple[float, float]] = []
    for density in sorted(dial.densities, key=lambda density: density != dial.densities[at]):
        left, words, bold = x(density), dial.percent(density), density == dial.densities[at]
        half = draw.width_of(words, _SIZE, bold) / 2 + 4
        body += draw.line(left, _HIGH, left, _HIGH + 5, draw.MUTED)
        if all(left + half <= low or high <= left - half for low, high in taken):
            fill = draw.INK if bold else draw.MUTED
            body += draw.label(left, _HIGH + 20, words, size=_SIZE, bold=bold, fill=fill, anchor="middle")
            taken.append((left - half, left + half))
    return body + draw.label((_LEFT + _RIGHT) / 2, _HIGH + 39, "density", size=_SIZE, fill=draw.MUTED, anchor="middle")


def _curve(points: Sequence[tuple[float, float]], color: str, dash: str, mark: str) -> str:
    path = "L".join(f"{draw.number(x)} {draw.number(y)}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    body = f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2.5"{dashes}/>'
    return body + "".join(_mark(x, y, color, mark) for x, y in points)


def _mark(x: float, y: float, color: str, mark: str) -> str:
    return draw.moved(draw.Panel(f'<path d="{mark}" fill="{color}"/>', 0), x, y)


def _names(ends: list[tuple[float, str]]) -> str:
    """Draw the names of the lines, given the heights where they end, one below the other."""
    body, low, ends = "", -_SIZE, sorted(ends)
    for number, (y, name) in enumerate(ends):
        low = max(low + 20, min(y, _HIGH - 20 * (len(ends) - 1 - number)))
        body += draw.line(_RIGHT + 9, y, _RIGHT + 24, low, draw.MUTED)
        body += draw.label(_RIGHT + 29, low + 5, name, draw.INNER - _RIGHT - 29, size=_SIZE, bold=True)
    return body


def _flags(found: list[tuple[float, str]], y: float) -> tuple[str, int]:
    """Mark the break-evens, given from left to right, by rings at height ``y``, and name them above the field.

    Return the drawing and the number of rows that the names take.
    """
    body, placed = "", []  # of each break-even to the right: its x and its row, counted from the field upwards
    for x, words in reversed(found):
        end = x + 9 + draw.width_of(words, _SIZE, True)
        row = 1 + max((above for right, above in placed if right < end), default=0)  # no stem crosses these words
        placed.append((x, row))
        ring = f'<circle r="{_RING}" fill="none" stroke="{draw.INK}" stroke-width="2"/>'
        body += draw.moved(draw.Panel(ring, 0), x, y) + draw.line(x, y - _RING, x, 2 - 20 * row, draw.INK)
        body += draw.label(x + 5, 14 - 20 * row, words, size=_SIZE, bold=True)
    return body, max((row for _, row in placed), default=0)


def _table(dial: Dial, at: int) -> draw.Panel:
    """Draw the figures at the chosen density, a row for each line of the chart."""
    names = ("time, us", "HBM, MB", "steps", "against dense", "break-even")
    rows = [_row("", f"at {dial.percent(dial.densities[at])}", names, bold=True)]
    for (name, curve), (color, dash, mark) in zip(dial.curves.items(), _STYLES, strict=False):
        point, found = curve[at], break_evens(curve, dial.dense)
        evens = ", ".join(map(dial.percent, found)) or f"stays {side(curve, dial.dense)}"
        versus = against(point.report, dial.dense).removesuffix(" than dense").removesuffix(" as dense")
        cells = us(point.report), mb(point.report), text.count(point.steps), versus, evens
        swatch = draw.line(0, 8, 34, 8, color, width=2.5, dash=dash) + _mark(17, 8, color, mark)
        rows.append(_row(swatch, name, cells))
    dense = us(dial.dense), mb(dial.dense), text.count(dial.dense.steps) if dial.dense.steps else "–", "", ""
    rows.append(_row(draw.line(0, 8, 34, 8, draw.INK, width=2), "dense", dense))
    return draw.stacked(rows)


def _row(swatch: str, name: str, cells: Sequence[str], bold: bool = False) -> draw.Panel:
    body = swatch + draw.label(44, 13, name, 168, size=_SIZE, bold=bold)
    for words, (x, anchor) in zip(cells, _COLUMNS, strict=True):
        room = draw.INNER - x if anchor == "start" else 78
        body += draw.label(x, 13, words, min(room, 140), size=_SIZE, bold=bold, anchor=anchor)
    return draw.Panel(body, _ROW)
