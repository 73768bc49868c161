"""One cycle of a systolic array as SVG."""

from course_lib.viz.common import draw
from course_lib.viz.systolic_stepper import systolic
from course_lib.viz.systolic_stepper.systolic import Matrix

_TALL, _QUEUE = 74, 34  # pixels: height of a cell, width of a waiting element
_FILL = ("#cfe3f1", "#fdf3d8", "#cfeadf")  # of cells that work on the same row of x, in turn


def still(x: Matrix, w: Matrix, cycle: int) -> str:
    """Draw the array after ``cycle`` cycles, what waits on its left, and what has come out below."""
    words = draw.paragraph(systolic.caption(x, w, cycle), size=17)
    said = "In a cell, from the top: its weight, what it adds to the sum from above, and the sum that it passes down."
    panel = draw.stacked([_array(x, w, cycle), words, draw.paragraph(said, size=15, fill=draw.MUTED)], gap=8)
    return draw.card(panel, "A systolic array", systolic.caption(x, w, cycle))


def fill(row_of_x: int) -> str:
    """Return the colour of the cells that work on a row of x."""
    return _FILL[row_of_x % len(_FILL)]


def _array(x: Matrix, w: Matrix, cycle: int) -> draw.Panel:
    rows, columns = len(w), len(w[0])
    left = _QUEUE * (systolic.NEAREST + 1)
    wide = (draw.INNER - left) / columns
    parts = [draw.label(0, 16, "x enters", left, size=15, bold=True)]
    parts.append(draw.label(left, 16, "weights stay, sums move down", draw.INNER - left, size=15, bold=True))
    for row in range(rows):
        top = 26 + row * _TALL
        parts += [_number(n, left - distance * _QUEUE, top) for distance, n in systolic.waiting(x, w, cycle, row)]
        for column in range(columns):
            parts.append(_cell(x, w, cycle, row, column, (left + column * wide, top, wide)))
    below = 26 + rows * _TALL
    parts.append(draw.label(0, below + 26, "comes out", left, size=15, bold=True))
    for m, column in systolic.just_out(x, w, cycle):
        x0, result = left + column * wide, systolic.out(x, w, cycle)[m][column]
        parts.append(draw.box(x0 + 4, below + 8, wide - 8, 28, fill(m), stroke=draw.INK, radius=3))
        words = f"y[{m}, {column}] = {result}"
        parts.append(draw.label(x0 + wide / 2, below + 27, words, wide - 10, size=16, bold=True, anchor="middle"))
    return draw.Panel("".join(parts), below + 42)


def _number(n: int, right: float, top: float) -> str:
    middle = right + _QUEUE / 2 - 6
    return draw.box(middle - 13, top + 22, 26, 28, draw.PAPER, stroke=draw.GREY, radius=13) + draw.label(
        middle, top + 42, str(n), size=16, anchor="middle"
    )


def _cell(x: Matrix, w: Matrix, cycle: int, row: int, column: int, where: tuple[float, float, float]) -> str:
    left, top, wide = where
    work, middle = systolic.cell(x, w, cycle, row, column), left + wide / 2
    paint = draw.PAPER if work is None else fill(work.row_of_x)
    body = draw.box(left, top, wide, _TALL, paint, stroke=draw.INK)
    body += draw.label(left + 8, top + 20, f"w {w[row][column]}", wide - 10, size=15, fill=draw.MUTED)
    if work is None:
        return body
    adds = f"{work.above} + {work.x}·{w[row][column]}"
    body += draw.label(middle, top + 43, adds, wide - 6, size=16, anchor="middle")
    return body + draw.label(middle, top + 65, f"= {work.total}", wide - 6, size=17, bold=True, anchor="middle")
