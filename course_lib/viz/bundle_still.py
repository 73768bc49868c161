"""The steady loop of a program as SVG and in words: how full each unit is, and its fullest bundles."""

from course_lib import text
from course_lib.viz import bundle_words, draw

_SHADES = ("#eef1f5", "#c6dcec", "#86b7da", "#3d8dc4", draw.BLUE)  # of a unit that is used by no, 1 .. 4 quarters
_NAME, _SHARE, _LANE = 76, 66, 30  # pixels: of the lanes' names and shares, and height
_MOST_ROWS, _ROW = 16, 24  # of the bundles that are shown in full
_NUMBER, _CELL = 52, 44
_NO_LOOP = "The program has no loop: this is all of it."


def still(data: dict) -> str:
    """A card: the busiest loop, or a program without one; ``data`` is from ``bundle_words.data``."""
    first, last = _range(data)
    words = [draw.paragraph(line, size=17) for line in _lines(data)]
    lanes = [_lane(data, column, first, last) for column in range(len(data["units"]))]
    rows = _fullest(data, first, last)
    title = "its bundles" if len(rows) == last - first + 1 else f"its fullest, {rows[0]} to {rows[-1]}"
    head = draw.heading(f"In bundles, one a row: {title}")
    panel = draw.stacked(
        [*words, draw.stacked(lanes), head, _columns(data), *(_bundle(data, row) for row in rows)], gap=3
    )
    return draw.card(panel, f"Bundles of {data['name']} on a {data['chip']}", as_text(data))


def as_text(data: dict) -> str:
    """The same as lines."""
    first, last = _range(data)
    shares = zip(data["units"], bundle_words.loop_uses(data, first, last), strict=True)
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
    said = bundle_words.loop_words(data, data["busiest"]) if data["busiest"] >= 0 else _NO_LOOP
    return [f"{data['name']} on a {data['chip']}: {size}. Its busiest loop:", said] if data["loops"] else [size, said]


def _lane(data: dict, column: int, first: int, last: int) -> draw.Panel:
    """A unit through the loop: dark where it is used, and the share of its slots."""
    left, width, bundles = _NAME, draw.INNER - _NAME - _SHARE, last - first + 1
    parts = [draw.label(0, 20, data["units"][column], _NAME - 6, size=16, bold=True)]
    pixels = min(bundles, 240)
    for n in range(pixels):
        rows = range(first + n * bundles // pixels, first + max(n * bundles // pixels + 1, (n + 1) * bundles // pixels))
        use = max(bundle_words.use(data, row, column) for row in rows)
        if use:
            parts.append(
                draw.box(left + n * width / pixels, 3, width / pixels - (0.6 if pixels < 80 else 0), 22, _SHADES[use])
            )
    share = bundle_words.loop_uses(data, first, last)[column]
    parts.insert(1, draw.box(left, 3, width, 22, _SHADES[0]))
    parts.append(draw.label(draw.INNER, 20, text.percent(share), _SHARE - 6, size=16, anchor="end"))
    return draw.Panel("".join(parts), _LANE)


def _fullest(data: dict, first: int, last: int) -> range:
    """The bundles that fill most slots, next to each other."""
    rows = range(first, last + 1)
    if len(rows) <= _MOST_ROWS:
        return rows
    filled = [
        sum(n for unit, n in zip(data["units"], data["rows"][row][0], strict=True) if unit != "scalar") for row in rows
    ]
    best = max(range(len(rows) - _MOST_ROWS + 1), key=lambda start: sum(filled[start : start + _MOST_ROWS]))
    return rows[best : best + _MOST_ROWS]


def _columns(data: dict) -> draw.Panel:
    parts = [draw.label(0, 13, "bundle", _NUMBER)]
    for column, unit in enumerate(data["units"]):
        parts.append(draw.label(_left(column) + _CELL / 2, 13, unit, _CELL + 2, size=12, anchor="middle"))
    parts.append(draw.label(_left(len(data["units"])) + 8, 13, "what it begins", 200))
    return draw.Panel("".join(parts), 18)


def _bundle(data: dict, row: int) -> draw.Panel:
    parts = [draw.label(_NUMBER - 10, 16, str(row), _NUMBER, size=13, anchor="end", fill=draw.MUTED)]
    for column in range(len(data["units"])):
        use, own = bundle_words.use(data, row, column), len(bundle_words.started(data, row, column))
        parts.append(draw.box(_left(column), 1, _CELL - 2, _ROW - 3, _SHADES[use]))
        ink = draw.PAPER if use > 2 else draw.INK
        if use:
            parts.append(draw.label(_left(column) + _CELL / 2 - 1, 16, own or "·", size=13, fill=ink, anchor="middle"))
    left = _left(len(data["units"])) + 8
    words = "; ".join(operation[1] for operation in data["rows"][row][1])
    parts.append(draw.label(left, 16, words, draw.INNER - left, size=12))
    return draw.Panel("".join(parts), _ROW)


def _left(column: int) -> float:
    return _NUMBER + column * _CELL
