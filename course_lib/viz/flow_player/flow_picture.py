"""Stages as a picture: operations in the core on one side, arrays in HBM on the other, arrows as wide as their bytes.

Each stage is a group with ``data-stage``, and a line that belongs to one step has ``data-at``: flow_player.js shows
them step by step and draws nothing itself.
"""

import dataclasses
from collections.abc import Sequence

from course_lib import text
from course_lib.viz.common import draw
from course_lib.viz.flow_player.stages import Move, Stage

ROW, GAP = 42, 8  # pixels: height of an array, gap between stages
SIZE = 13  # font size
_CELL = 36
_WIDEST, _HEAD = 16, 9  # pixels: width of the thickest shaft, length of an arrowhead
CORE, HBM = "#fdf3d8", "#eef1f5"  # as in the grid player
MARKED = "#fbe3c0"  # fill of a marked array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lanes:
    """The place of a column of stages: its left edge, and the widths of its operations, arrows and arrays."""

    left: float  # edge of the column
    op: float
    arrow: float
    cell: float
    mirrored: bool = False  # arrays on the left, operations on the right
    upwards: bool = False  # the first stage at the bottom

    @property
    def width(self) -> float:
        return self.op + self.arrow + self.cell

    @property
    def op_x(self) -> float:
        return self.left + (self.cell + self.arrow if self.mirrored else 0)

    @property
    def arrow_x(self) -> float:
        return self.left + (self.cell if self.mirrored else self.op)

    @property
    def cell_x(self) -> float:
        return self.left + (0 if self.mirrored else self.op + self.arrow)


def height(stages: Sequence[Stage]) -> float:
    """Return the height of a column in pixels."""
    return sum(ROW * len(stage.moves) + GAP for stage in stages) - GAP


def column(stages: Sequence[Stage], lanes: Lanes, top: float, most: int, fills: dict, first: int = 1) -> str:
    """Draw the stages downwards from ``top``. ``most``: the bytes of the widest arrow; ``fills``: array -> colour;
    ``first``: the number of the first stage.
    """
    parts, y = [], top
    order = list(enumerate(stages, first))
    for number, stage in reversed(order) if lanes.upwards else order:
        parts.append(f'<g data-stage="{number}">{_stage(number, stage, lanes, y, most, fills)}</g>')
        y += ROW * len(stage.moves) + GAP
    return "".join(parts)


def cells(stages: Sequence[Stage], lanes: Lanes, top: float) -> list[tuple[str, str, float]]:
    """List every move of a column from the top: (array, way, y of its middle)."""
    found, y = [], top
    for stage in reversed(stages) if lanes.upwards else stages:
        for n, move in enumerate(stage.moves):
            found.append((move.array, move.way, y + ROW * (n + 0.5)))
        y += ROW * len(stage.moves) + GAP
    return found


def thickness(size: int, most: int) -> float:
    """Return the width in pixels of an arrow for ``size`` bytes."""
    return max(1.5, _WIDEST * size / most) if most else 1.5


def _stage(number: int, stage: Stage, lanes: Lanes, y: float, most: int, fills: dict) -> str:
    tall = ROW * len(stage.moves)
    body = draw.box(lanes.op_x + 3, y + 3, lanes.op - 6, tall - 6, draw.PAPER, stroke=draw.INK, radius=4)
    lines = draw.wrapped(stage.name, lanes.op - 14, SIZE, bold=True)[: max(2, tall // 18)]
    base = y + tall / 2 + 5 - 9 * (len(lines) - 1)
    for n, line in enumerate(lines):
        middle = lanes.op_x + lanes.op / 2
        body += draw.label(middle, base + 18 * n, line, lanes.op - 14, size=SIZE, bold=True, anchor="middle")
    for n, move in enumerate(stage.moves):
        body += _cell(move, lanes, y + ROW * (n + 0.5), fills) + _arrow(move, lanes, y + ROW * (n + 0.5), most)
    return body


def _cell(move: Move, lanes: Lanes, middle: float, fills: dict) -> str:
    x, centre = lanes.cell_x + 3, lanes.cell_x + lanes.cell / 2
    room, top = lanes.cell - 10, middle - _CELL / 2
    return (
        draw.box(x, top, lanes.cell - 6, _CELL, fills.get(move.array, draw.PAPER), stroke=draw.MUTED)
        + draw.label(centre, top + 15, move.array, room, size=SIZE, bold=True, anchor="middle")
        + draw.label(centre, top + 31, text.size(move.bytes), room, size=SIZE, anchor="middle")
    )


def _arrow(move: Move, lanes: Lanes, middle: float, most: int) -> str:
    """Draw an arrow from the array to the operation if it is read, and back if it is written."""
    half = thickness(move.bytes, most) / 2
    rightwards = (move.way == "write") != lanes.mirrored
    near, far = lanes.arrow_x + 1, lanes.arrow_x + lanes.arrow - 1
    tail, tip = (near, far) if rightwards else (far, near)
    neck, wing = tip + (-_HEAD if rightwards else _HEAD), max(half, 1) + 3
    points = [
        (tail, middle - half),
        (neck, middle - half),
        (neck, middle - wing),
        (tip, middle),
        (neck, middle + wing),
        (neck, middle + half),
        (tail, middle + half),
    ]
    fill = draw.BLUE if move.way == "read" else draw.GREEN
    path = "L".join(f"{draw.number(x)} {draw.number(y)}" for x, y in points)
    verb = "reads" if move.way == "read" else "writes"
    return f'<path d="M{path}z" fill="{fill}"><title>{verb} {draw.escape(move.array)}</title></path>'


def lane(x: float, width: float, top: float, tall: float, fill: str, words: str) -> str:
    """Draw a band behind operations or arrays, with its name at the top."""
    return draw.box(x, top, width, tall, fill, radius=4) + draw.label(
        x + width / 2, top + 17, words, width, size=SIZE, bold=True, fill=draw.MUTED, anchor="middle"
    )


def bar(stages: Sequence[Stage], y: float, width: float, longest: int) -> str:
    """Draw all bytes as a bar, one piece per stage; ``longest`` is the number of bytes that fills ``width``."""
    scale = width / max(longest, 1)
    parts, x = [draw.box(0, y, width, 12, draw.TRACK)], 0.0
    for number, stage in enumerate(stages, 1):
        wide, tip = scale * stage.bytes, f"{stage.name}: {text.size(stage.bytes)}"
        piece = draw.box(x, y, max(0, wide - 1), 12, draw.ORANGE, title=tip)
        parts.append(f'<g data-stage="{number}">{piece}</g>')
        x += wide
    return "".join(parts)


def at_steps(lines: Sequence[str], y: float, width: float, live: bool) -> str:
    """Draw a line of text that changes from step to step; a still has only the last one."""
    drawn = [draw.label(0, y, words, width, size=SIZE, bold=True) for words in lines]
    if not live:
        return drawn[-1]
    return "".join(f'<g data-at="{step}">{each}</g>' for step, each in enumerate(drawn))


def legend(entries: Sequence[tuple[str, str]], width: float) -> draw.Panel:
    """Draw the meaning of fills and arrows, (colour, words) each, on as many lines as needed."""
    body, x, y = "", 0.0, 0.0
    for fill, words in entries:
        long = 22 + draw.width_of(words, SIZE)
        if x and x + long > width:
            x, y = 0.0, y + 20
        body += draw.box(x, y + 2, 14, 14, fill, stroke=draw.MUTED)
        body += draw.label(x + 20, y + 14, words, width - x - 20, size=SIZE)
        x += long + 16
    return draw.Panel(body, y + 20)


ARROWS = ((draw.BLUE, "read from HBM"), (draw.GREEN, "written to HBM"))
