"""The matrix as SVG and in words, with the reason for one cell."""

from course_lib.viz.capability_matrix.capabilities import ENGINES, NEEDS, NO, PARTLY, YES, said, standing
from course_lib.viz.common import draw

_NAME, _ROW, _HEAD, _SIZE = 274, 25, 40, 14
_WIDE = (draw.INNER - _NAME) / len(ENGINES)
_FILL = {YES: "#cfe3f1", PARTLY: "#fdf3d8", NO: draw.PAPER}


def still(title: str, needs: list[int], picked: tuple[int, int]) -> str:
    """Draw the whole matrix as a card: the ``needs`` in bold, the ``picked`` cell framed and explained below."""
    panels = [
        draw.paragraph(title, size=16, bold=True),
        _head(needs),
        draw.stacked([_row(row, row in needs, picked) for row in range(len(NEEDS))]),
        draw.paragraph(explained(*picked), size=_SIZE),
        *([draw.paragraph(said(needs), size=_SIZE, bold=True)] if needs else []),
    ]
    return draw.card(draw.stacked(panels, gap=6), title, as_text(needs, picked))


def as_text(needs: list[int], picked: tuple[int, int]) -> str:
    """Return the same as lines of text."""
    wide = max(len(need.name) for need in NEEDS)
    lines = [" " * wide + "".join(f"  {engine.name:11}" for engine in ENGINES)]
    lines += [f"{need.name:{wide}}" + "".join(f"  {cell.can:11}" for cell in need.cells) for need in NEEDS]
    return "\n".join([*map(str.rstrip, lines), "", explained(*picked), *([said(needs)] if needs else [])])


def explained(row: int, column: int) -> str:
    """Say why a cell says what it says, and what that rests on; the same as ``explained`` in JavaScript."""
    need, engine = NEEDS[row], ENGINES[column]
    cell = need.cells[column]
    return f"{engine.name}, {need.name}: {cell.can}. {cell.why} Source: {cell.source}."


def _head(needs: list[int]) -> draw.Panel:
    body = ""
    for column, engine in enumerate(ENGINES):
        middle = _NAME + (column + 0.5) * _WIDE
        fill = draw.MUTED if needs and standing(needs, column) == NO else draw.INK
        body += draw.label(middle, 14, engine.name, _WIDE, size=12, fill=fill, anchor="middle")
        body += draw.label(middle, 31, engine.by, _WIDE, size=12, fill=draw.MUTED, anchor="middle")
    return draw.Panel(body, _HEAD)


def _row(row: int, needed: bool, picked: tuple[int, int]) -> draw.Panel:
    need = NEEDS[row]
    body = draw.label(0, 17, need.name, _NAME - 8, size=13, bold=needed)
    for column, cell in enumerate(need.cells):
        left, here = _NAME + column * _WIDE, (row, column) == picked
        body += draw.box(left + 1, 1, _WIDE - 2, _ROW - 2, _FILL[cell.can], stroke=draw.INK if here else draw.LINE)
        fill = draw.MUTED if cell.can == NO else draw.INK
        bold = cell.can == YES
        body += draw.label(left + _WIDE / 2, 17, cell.can, size=13, bold=bold, fill=fill, anchor="middle")
    return draw.Panel(body, _ROW)
