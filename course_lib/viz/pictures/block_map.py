"""The output of a kernel as a map of its blocks: right, partly wrong, wrong, NaN or never written."""

from course_lib import text
from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture

_MARKS = {"right": ".", "partly wrong": "/", "wrong": "#", "NaN or never written": "?"}
_COLOURS = {"right": "#d9f0e6", "partly wrong": draw.ORANGE, "wrong": draw.RED, "NaN or never written": draw.PAPER}
_SIDE, _GAP = 20, 3  # pixels: side of a square, gap


def block_map(map) -> Picture:
    """Draw a ``judges.BlockMap``: its ``cells``, with a legend of the states that occur."""
    return Picture(svg=_svg(map), text=_text(map))


def _title(map) -> str:
    what = "block" if map.of_kernel else "part"
    return f"{map.name}, one mark for each {what} of shape {map.unit}"


def _occurring(map) -> list[str]:
    found = {state for row in map.cells for state in row}
    return [state for state in _MARKS if state in found]


def _text(map) -> str:
    legend = "   ".join(f"{_MARKS[state]} {state}" for state in _occurring(map))
    wide = max((len(name) for name in map.rows), default=0)
    names = [f"{name:{wide}}  " for name in map.rows] or [""] * len(map.cells)
    rows = [f"  {name}" + " ".join(_MARKS[s] for s in row) for name, row in zip(names, map.cells, strict=True)]
    head = f"{_title(map)}:   {legend}"
    lines = [head] if len(head) <= text.COLUMNS else [f"{_title(map)}:", f"  {legend}"]
    return "\n".join([*lines, *rows])


def _svg(map) -> str:
    step = _SIDE + _GAP
    left = max((draw.width_of(name) + 8 for name in map.rows), default=0)
    boxes = "".join(draw.label(0, i * step + _SIDE / 2 + 4, name, left) for i, name in enumerate(map.rows))
    boxes += "".join(
        _cell(left + j * step, i * step, state) for i, row in enumerate(map.cells) for j, state in enumerate(row)
    )
    what = "block" if map.of_kernel else "part"
    heading = draw.heading(map.name, f"each square is one {what} of shape {map.unit}")
    panel = draw.stacked([heading, draw.Panel(boxes, len(map.cells) * step), _legend(map)], gap=6)
    return draw.card(panel, _title(map), _text(map))


def _legend(map) -> draw.Panel:
    body, x = "", 0.0
    for state in _occurring(map):
        body += _cell(x, 0, state, side=14) + draw.label(x + 20, 11, state, draw.INNER - x)
        x += 40 + draw.width_of(state)
    return draw.Panel(body, 16)


def _cell(x: float, y: float, state: str, side: int = _SIDE) -> str:
    square = draw.box(x, y, side, side, _COLOURS[state], stroke=draw.MUTED)
    sign = {"right": "", "wrong": "×"}.get(state, _MARKS[state])
    return square + draw.label(x + side / 2, y + side / 2 + 4, sign, side, anchor="middle")
