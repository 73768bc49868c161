"""The sizes that exercises 15.8 and 15.9 name are those of the lesson's cells."""

import numpy as np
from lesson_files import code_cells

from course_lib.lessons.lesson_15 import e08_grouped_matmul as exercise


def test_the_sizes_of_the_exercise_are_those_of_the_lesson():
    cells = [cell.source for cell in code_cells("notebooks/src", "15_grouped_matmul")]
    opening = next(cell for cell in cells if "popular = np.bincount" in cell)
    spread = next(cell for cell in cells if cell.startswith("spread = {"))
    names = {"np": np, "EXPERTS": 8, "ROWS": exercise.ROWS}
    begin = opening.index("share = ")
    exec(opening[begin : opening.index("print(")], names)
    exec(spread[: spread.index("viz.")], names)
    assert tuple(names["spread"]["popular"]) == exercise.POPULAR
    assert tuple(names["spread"]["nearly even"]) == exercise.NEARLY_EVEN
