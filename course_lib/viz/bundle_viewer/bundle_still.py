"""The busiest loop of a program as SVG and in words: how full each unit is, and the fullest bundles."""

import itertools
import math

from course_lib import text
from course_lib.viz.bundle_viewer import bundle_data
from course_lib.viz.common import draw

_SHADES = ("#eef1f5", "#c6dcec", "#86b7da", "#3d8dc4", draw.BLUE)  # for 0 to 4 quarters of a unit's slots
_NAME, _SHARE, _LANE = 76, 66, 30  # pixels: widths of a lane's name and share, and its height
_MOST_PIXELS, _APART = 240, 80  # columns of a lane; below the second number they have gaps
_MOST_ROWS, _ROW = 24, 24  # rows of bundles shown in full; pixels of a row
_NUMBER, _CELL = 52, 44
_QUIET = "only work of the scalar unit"
_NO_LOOP = "The program has no loop: this is all of it."


def still(data: dict) -> str:
    """Draw the busiest loop, or a program without loops, as a card; ``data`` is from ``bundle_data.data``."""
    first, last = _range(data)
    words = [draw.paragraph(line, size=17) for line in _lines(data)]
    lanes = [_lane(data, column, first, last) for column in range(len(data["units"]))]
    rows = _rows(data, first, last)
    complete = (rows[0].start, rows[-1].stop) == (first, last + 1)
    title = "its bundles" if complete else f"its fullest, {rows[0].start} to {rows[-1].stop - 1}"
    head = draw.heading(f"In bundles, one a row: {title}")
    panel = draw.stacked(
        [*words, draw.stacked(lanes), head, _columns(data), *(_bundle(data, row) for row in rows)], gap=3
    )
    return draw.card(panel, f"Bundles of {data['name']} on a {data['chip']}", as_text(data))


def as_text(data: dict) -> str:
    """Return the same as lines of text."""
    first, last = _range(data)
    shares = zip(data["units"], bundle_data.loop_uses(data, first, last), strict=True)
    return "\n".join(
        [*_lines(data), "Slots used: " + ", ".join(f"{unit} {text.percent(n)}" for unit, n in shares) + "."]
    )


def _range(data: dict) -> tuple[int, int]:
    if data["busiest"] < 0:
        return 0, len(data["rows"]) - 1
    first, last, _ = data["loops"][data["busiest"]]
    return first, last


def _lines(data: dict) -> list[str]:
    size = text.counted(len(data["rows"]) + data["leftOut"], "bundle")
    said = bundle_data.loop_words(data, data["busiest"]) if data["busiest"] >= 0 else _NO_LOOP
    return [f"{data['name']} on a {data['chip']}: {size}. Its busiest loop:", said] if data["loops"] else [size, said]


def _lane(data: dict, column: int, first: int, last: int) -> draw.Panel:
    """Draw one unit through the loop, darker where it is fuller, and the share of its slots in use."""
    left, width, bundles = _NAME, draw.INNER - _NAME - _SHARE, last - first + 1
    pixels = min(bundles, _MOST_PIXELS)
    edges = [first + n * bundles // pixels for n in range(pixels + 1)]
    uses = [_mean_use(data, column, range(*rows)) for rows in itertools.pairwise(edges)]
    parts = [
        draw.label(0, 20, data["units"][column], _NAME - 6, size=16, bold=True),
        draw.box(left, 3, width, 22, _SHADES[0]),
    ]
    for use, run in itertools.groupby(range(pixels), lambda n: (uses[n], n if pixels < _APART else 0)):
        places = list(run)
        wide = len(places) * width / pixels - (0.6 if pixels < _APART else 0)
        if use[0]:
            parts.append(draw.box(left + places[0] * width / pixels, 3, wide, 22, _SHADES[use[0]]))
    share = bundle_data.loop_uses(data, first, last)[column]
    parts.append(draw.label(draw.INNER, 20, text.percent(share), _SHARE - 6, size=16, anchor="end"))
    return draw.Panel("".join(parts), _LANE)


def _mean_use(data: dict, column: int, rows: range) -> int:
    """Return the mean use of a unit in quarters of its slots, rounded up so that any use is visible."""
    return math.ceil(sum(bundle_data.use(data, row, column) for row in rows) / len(rows))


def _rows(data: dict, first: int, last: int) -> list[range]:
    """Choose consecutive rows for the table: one for each bundle; in a long loop, idle neighbours share a row.

    If the loop is still too long, keep the rows that fill most slots.
    """
    rows = [range(row, row + 1) for row in range(first, last + 1)]
    if len(rows) > _MOST_ROWS:
        runs = itertools.groupby(range(first, last + 1), lambda row: row if _begins(data, row) else -1)
        rows = [range(places[0], places[-1] + 1) for places in (list(run) for _, run in runs)]
    if len(rows) <= _MOST_ROWS:
        return rows
    filled = [sum(_begun(data, row) for row in each) for each in rows]
    best = max(range(len(rows) - _MOST_ROWS + 1), key=lambda start: sum(filled[start : start + _MOST_ROWS]))
    return rows[best : best + _MOST_ROWS]


def _begins(data: dict, row: int) -> bool:
    """Whether a bundle starts anything besides scalar work."""
    return any(data["units"][operation[0]] != "scalar" for operation in data["rows"][row][1])


def _begun(data: dict, row: int) -> int:
    """Count the slots that a bundle uses, except those of the scalar unit."""
    return sum(n for unit, n in zip(data["units"], data["rows"][row][0], strict=True) if unit != "scalar")


def _columns(data: dict) -> draw.Panel:
    parts = [draw.label(0, 13, "bundle", _NUMBER)]
    for column, unit in enumerate(data["units"]):
        parts.append(draw.label(_left(column) + _CELL / 2, 13, unit, _CELL + 2, size=12, anchor="middle"))
    parts.append(draw.label(_left(len(data["units"])) + 8, 13, "what it starts", 200))
    return draw.Panel("".join(parts), 18)


def _bundle(data: dict, rows: range) -> draw.Panel:
    """Draw one bundle, or several neighbours that start nothing."""
    number = str(rows.start) if len(rows) == 1 else f"{rows.start}-{rows[-1]}"
    parts = [draw.label(_NUMBER - 10, 16, number, _NUMBER, size=13, anchor="end", fill=draw.MUTED)]
    for column in range(len(data["units"])):
        use, own = _mean_use(data, column, rows), sum(len(bundle_data.started(data, row, column)) for row in rows)
        parts.append(draw.box(_left(column), 1, _CELL - 2, _ROW - 3, _SHADES[use]))
        ink = draw.PAPER if use > 2 else draw.INK
        if use:
            parts.append(draw.label(_left(column) + _CELL / 2 - 1, 16, own or "·", size=13, fill=ink, anchor="middle"))
    left = _left(len(data["units"])) + 8
    words = "; ".join(operation[1] for operation in data["rows"][rows.start][1]) if len(rows) == 1 else _QUIET
    parts.append(draw.label(left, 16, words, draw.INNER - left, size=12))
    return draw.Panel("".join(parts), _ROW)


def _left(column: int) -> float:
    return _NUMBER + column * _CELL
