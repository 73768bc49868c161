"""The results of a search over three block sizes, as maps: one per middle size, with a square for each choice."""

from collections.abc import Mapping

from course_lib import vocabulary
from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture

_SIDE, _HEAD, _LEFT, _GAP = 52, 48, 44, 14
_SHADES = ((1.1, draw.BLUE), (1.5, "#3d8dc4"), (3.0, "#86b7da"), (float("inf"), "#c6dcec"))
_NONE = "#eef1f5"


def search_map(
    seconds: Mapping[tuple[int, int, int], float | None], asked: tuple | list = (), names: str = "bm bk bn"
) -> Picture:
    """Draw the times of all choices of three sizes as multiples of the shortest, one map for each second size.

    ``seconds``: (first, second, third) -> seconds, *predicted (compiler)*; None for a choice that was refused. A ring
    marks those in ``asked``. Raises ValueError if no choice has a time.
    """
    best = min((s for s in seconds.values() if s is not None), default=None)
    if best is None:
        raise ValueError("search_map: none of the choices in seconds has a time.")
    rows, maps, columns = (sorted({choice[axis] for choice in seconds}) for axis in range(3))
    first, second, third = names.split()
    wide = _LEFT + _SIDE * len(columns) + _GAP
    across = max(1, int(draw.INNER // wide))
    parts, high = [], _HEAD + _SIDE * len(rows) + _GAP
    for number, middle in enumerate(maps):
        left, top = wide * (number % across), high * (number // across)
        parts.append(draw.label(left + _LEFT, top + 16, f"{second} = {middle}", wide - _LEFT, size=15, bold=True))
        for place, column in enumerate(columns):
            x = left + _LEFT + _SIDE * (place + 0.5)
            parts.append(draw.label(x, top + 38, column, _SIDE, size=12, anchor="middle", fill=draw.MUTED))
        for line, row in enumerate(rows):
            y = top + _HEAD + _SIDE * line
            parts.append(draw.label(left + _LEFT - 6, y + 30, row, _LEFT, size=12, anchor="end", fill=draw.MUTED))
            for place, column in enumerate(columns):
                choice = row, middle, column
                if choice in seconds:
                    x = left + _LEFT + _SIDE * place
                    parts.append(_square(x, y, seconds[choice], best, choice in set(map(tuple, asked))))
    panel = draw.Panel("".join(parts), high * -(-len(maps) // across))
    words = _words(seconds, best, asked, names)
    head = draw.paragraph(
        f"Rows: {first}. Columns: {third}. Time, as a multiple of the shortest, {vocabulary.COMPILER}.", size=14
    )
    foot = draw.paragraph(
        "x: refused for its VMEM. A frame: the shortest." + (" A ring: the search tried it." if asked else ""), size=14
    )
    return Picture(svg=draw.card(draw.stacked([head, panel, foot], 4), "A search", words), text=words)


def _square(x: float, y: float, seconds: float | None, best: float, ringed: bool) -> str:
    ratio = None if seconds is None else seconds / best
    shade = _NONE if ratio is None else next(colour for most, colour in _SHADES if ratio <= most)
    ink = draw.PAPER if ratio is not None and ratio <= _SHADES[1][0] else draw.INK
    shown = "x" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
    square = draw.box(x, y, _SIDE - 2, _SIDE - 2, shade)
    frame = draw.box(x + 1, y + 1, _SIDE - 4, _SIDE - 4, "none", stroke=draw.INK) if ratio == 1 else ""
    ring = _ring(x + _SIDE / 2 - 1, y + _SIDE / 2 - 1) if ringed else ""
    label = draw.label(x + _SIDE / 2 - 1, y + 30, shown, _SIDE - 4, size=14, fill=ink, anchor="middle", bold=ratio == 1)
    return square + frame + ring + label


def _ring(x: float, y: float) -> str:
    """Draw a ring in white and, inside it, in ink, so that it shows on every shade."""
    outer, inner = (
        f'<circle cx="{draw.number(x)}" cy="{draw.number(y)}" r="{_SIDE / 2 - 5}" fill="none" stroke="{colour}" '
        f'stroke-width="{width}"/>'
        for colour, width in ((draw.PAPER, 6), (draw.INK, 2.5))
    )
    return outer + inner


def _words(seconds: Mapping, best: float, asked, names: str) -> str:
    refused = sum(s is None for s in seconds.values())
    near = sum(s is not None and s <= 1.1 * best for s in seconds.values())
    choice = min((c for c, s in seconds.items() if s is not None), key=lambda c: seconds[c])
    said = ", ".join(f"{name} {size}" for name, size in zip(names.split(), choice, strict=True))
    return (
        f"{len(seconds)} choices, {refused} refused, {near} within 1.1 times the shortest, which is "
        f"{best * 1e6:.1f} us, "
        f"{vocabulary.COMPILER}, with {said}." + (f" The search tried {len(asked)}." if asked else "")
    )
