"""A widget that shows where blocks reach past the edge of a table, and what a mask lets through."""

from collections.abc import Sequence
from typing import NamedTuple

from course_lib import text
from course_lib.viz.choices.choices import Choices, Group, State
from course_lib.viz.common import draw

MOST_BLOCKS = 4  # along one axis
_MASKS = ("none", "rows", "columns", "both")
_TABLE, _GAP = 250, 40  # pixels: width of the table, and of the gap to the block
_HIGH = 210
_OWN, _OUT, _GARBAGE = "#cfe3f1", draw.PAPER, "#f6d5c3"


class Span(NamedTuple):
    """A block along one axis: its first index, its length, and how many of its elements the array has."""

    first: int
    size: int
    own: int


def mask_painter(shape: tuple[int, int], block: tuple[int, int], step: tuple[int, int] = (0, 0)) -> Choices:
    """Show a table of ``shape`` in blocks of ``block``; the reader chooses a block and a mask and sees what passes.

    ``step`` is the block (row, column) shown first; all sizes are numbers of elements. Nothing is run. Raises
    ValueError for sizes that are not positive integers, for more than 4 blocks along an axis, and for a step outside
    the table.
    """
    for name, sizes in (("shape", shape), ("block", block)):
        if len(sizes) != 2 or not all(type(n) is int and n > 0 for n in sizes):
            raise ValueError(
                f"mask_painter: {name}={sizes!r} is not the size of a table. Give two whole numbers above 0."
            )
    blocks = [-(-n // b) for n, b in zip(shape, block, strict=True)]
    if max(blocks) > MOST_BLOCKS:
        raise ValueError(
            f"mask_painter: block={block!r} cuts {shape!r} into {blocks[0]} x {blocks[1]} blocks, but there is room "
            f"for {MOST_BLOCKS} along an axis. Take larger blocks."
        )
    if len(step) != 2 or not all(type(n) is int and 0 <= n < most for n, most in zip(step, blocks, strict=True)):
        raise ValueError(
            f"mask_painter: step={step!r} is not in the table: it has {blocks[0]} x {blocks[1]} blocks, from (0, 0) on."
        )
    groups = [
        Group(f"block {axis}", tuple(map(str, range(n)))) for axis, n in zip(("row", "column"), blocks, strict=True)
    ]

    def state(i: int, j: int, mask: int) -> State:
        spans = [_span(shape[a], block[a], n) for a, n in enumerate((i, j))]
        return State(_drawn(shape, block, spans, _MASKS[mask]), said(shape, spans, _MASKS[mask]))

    last = [*step, len(_MASKS) - 1]
    return Choices("What a mask lets through", [*groups, Group("mask", _MASKS)], state, [*step, 0], [[*step, 0], last])


def _span(length: int, size: int, number: int) -> Span:
    first = number * size
    return Span(first, size, min(size, length - first))


def masked(mask: str) -> tuple[bool, bool]:
    """Whether rows are masked, and whether columns are."""
    return mask in ("rows", "both"), mask in ("columns", "both")


def said(shape: Sequence[int], spans: Sequence[Span], mask: str) -> str:
    """Describe the block and what passes the mask, in sentences."""
    passes = 1
    own = spans[0].own * spans[1].own
    for span, on in zip(spans, masked(mask), strict=True):
        passes *= span.own if on else span.size
    words = []
    for name, span, length in zip(("rows", "columns"), spans, shape, strict=True):
        last, past = span.first + span.size - 1, span.size - span.own
        over = (
            "all of them in the table" if not past else f"the last {past} past the end ({length - 1} is the last one)"
        )
        words.append(f"{name} {span.first} to {last}, {over}")
    garbage = passes - own
    end = "and no garbage" if not garbage else f"and garbage in {text.counted(garbage, 'place')}"
    return f"{words[0].capitalize()}; {words[1]}. Let through: {text.counted(own, 'element')} of the table, {end}."


def _drawn(shape: Sequence[int], block: Sequence[int], spans: Sequence[Span], mask: str) -> draw.Panel:
    left = _TABLE + _GAP
    conditions = [
        _condition(name, span, length, on)
        for name, span, length, on in zip(("row", "column"), spans, shape, masked(mask), strict=True)
    ]
    body = draw.label(0, 14, f"the table, {shape[0]} x {shape[1]}", _TABLE, size=15, bold=True)
    body += draw.moved(_table(shape, block, spans), 0, 24)
    body += draw.label(left, 14, f"the block, {block[0]} x {block[1]}", draw.INNER - left, size=15, bold=True)
    body += draw.moved(_block(spans, mask), left, 24)
    for n, words in enumerate(conditions):
        body += draw.label(0, 24 + _HIGH + 26 + 22 * n, words, draw.INNER, size=15)
    return draw.Panel(body + draw.moved(_legend(), 0, 24 + _HIGH + 62), 24 + _HIGH + 86)


def _condition(name: str, span: Span, length: int, on: bool) -> str:
    begins = f"{name} = {span.first} + iota"
    return f"{begins}, {name} < {length} lets {span.own} of {span.size} through" if on else f"{begins}: not checked"


def _table(shape: Sequence[int], block: Sequence[int], spans: Sequence[Span]) -> draw.Panel:
    """Draw all blocks, hatched where they reach past the edge."""
    wide, high = (-(-n // b) * b for n, b in zip(shape[::-1], block[::-1], strict=True))
    x, y = (lambda n: n * _TABLE / wide), (lambda n: n * _HIGH / high)
    body = draw.box(0, 0, _TABLE, _HIGH, _OUT) + draw.hatch(0, 0, _TABLE, _HIGH, draw.GREY)
    body += draw.box(0, 0, x(shape[1]), y(shape[0]), _OWN)
    for n in range(0, wide + 1, block[1]):
        body += draw.line(x(n), 0, x(n), _HIGH, draw.MUTED)
    for n in range(0, high + 1, block[0]):
        body += draw.line(0, y(n), _TABLE, y(n), draw.MUTED)
    top, left = y(spans[0].first), x(spans[1].first)
    here = f'fill="none" stroke="{draw.INK}" stroke-width="3"'
    size = f'width="{draw.number(x(block[1]))}" height="{draw.number(y(block[0]))}"'
    return draw.Panel(f'{body}<rect x="{draw.number(left)}" y="{draw.number(top)}" {size} {here}/>', _HIGH)


def _block(spans: Sequence[Span], mask: str) -> draw.Panel:
    """Draw the chosen block in up to four pieces, by what the mask does to each."""
    rows, columns = spans
    room = draw.INNER - _TABLE - _GAP
    downs = _pieces(rows, _HIGH, masked(mask)[0])
    overs = _pieces(columns, room, masked(mask)[1])
    body = ""
    for top, high, own_row, out_row in downs:
        for left, wide, own_column, out_column in overs:
            own, out = own_row and own_column, out_row or out_column
            fill = _OWN if own else _OUT if out else _GARBAGE
            body += draw.box(left, top, wide, high, fill, stroke=draw.MUTED)
            if not own and not out:
                body += draw.hatch(left, top, wide, high, draw.RED)
            words = "passes" if own else "out" if out else "garbage"
            if high >= 18:
                middle = left + wide / 2, top + high / 2 + 5
                body += draw.label(*middle, words, wide - 6, size=14, bold=True, anchor="middle", halo=not (own or out))
    return draw.Panel(body, _HIGH)


def _pieces(span: Span, room: float, on: bool) -> list[tuple[float, float, bool, bool]]:
    """Split an axis into the table's part and what lies past the edge: (start, size, the table's, masked out)."""
    share = room * span.own / span.size
    pieces = [(0.0, share, True, False)]
    if span.own < span.size:
        pieces.append((share, room - share, False, on))
    return pieces


def _legend() -> draw.Panel:
    entries = [(_OWN, "in the table", ""), (_OUT, "masked out", ""), (_GARBAGE, "garbage that passes", draw.RED)]
    body, left = "", 0.0
    for fill, words, stroke in entries:
        body += draw.box(left, 2, 22, 16, fill, stroke=draw.MUTED)
        body += draw.hatch(left, 2, 22, 16, stroke) if stroke else ""
        body += draw.label(left + 30, 15, words, 200, size=14, fill=draw.MUTED)
        left += 60 + draw.width_of(words, 14)
    return draw.Panel(body, 20)
