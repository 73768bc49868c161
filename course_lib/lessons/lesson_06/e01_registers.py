"""Six arrays: how many registers each takes, and how much of them is padding."""

import math

import numpy as np

from course_lib import grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

SHAPES = {
    "A": ((100, 100), "float32"),
    "B": ((9, 4, 128), "float32"),
    "C": ((3, 900), "float32"),
    "D": ((48, 200), "bfloat16"),
    "E": ((64, 130), "int8"),
    "F": ((500, 1), "float32"),
}
NEAR = {  # register counts that known mistakes lead to
    "A": {
        10: "10,000 numbers fill that many if they lie back to back. They lie in rows, and rows are padded.",
        25: "That counts 100 lanes as two registers. How many lanes has one?",
        104: "That rounds up to 8 lanes and 8 rows. A register has 128 lanes.",
    },
    "B": {
        5: "So many would do if two slices of 4 rows shared a register. What begins with each place of the first axis?",
        1: "That is one of the slices. How many are there?",
        36: "That gives each row a register of its own. Only the axes before the last two do that.",
        4: "That takes the first axis for the rows. Which two axes go to rows and lanes?",
    },
    "C": {
        8: "So many it would be if 3 rows were rounded up to 8. So few rows are stored in tiles of 4, and how many "
        "tiles of 4 rows does a register hold?",
        3: "2,700 numbers would fit into three. But 900 lanes are rounded up to 1,024, and 3 rows to 4.",
        24: "That gives each row registers of its own.",
    },
    "D": {
        12: "That is right for float32. How many rows of bfloat16 does a register hold?",
        5: "So many are full if nothing is padded. 200 lanes are rounded up to 256.",
        3: "That has all 200 lanes in one register.",
        24: "That rounds each row of bfloat16 up to four bytes, and again the lanes to 256. Two rows share a lane.",
    },
    "E": {
        16: "That is right for float32. How many rows of int8 does a register hold?",
        2: "That has 130 lanes in one register: they need two, and the second is nearly empty.",
        8: "That is right for 16 rows in a register, as bfloat16 has them.",
        3: "So many are full if nothing is padded. 130 lanes are rounded up to 256.",
    },
    "F": {
        1: "500 numbers would fit into one, if they lay side by side. Here each has a row, and so 128 lanes.",
        500: "That gives each row a register of its own. Eight rows share one.",
        62: "Half a register is one register too many for that: round up.",
    },
}


def _registers(name: str) -> int:
    return grid.registers(*SHAPES[name])


def _empty(name: str, registers: int) -> float:
    """Return the percentage of register slots that hold no element of the array."""
    shape, dtype = SHAPES[name]
    return 100 * (1 - math.prod(shape) / (registers * 4096 / np.dtype(dtype).itemsize))


def _asked(name: str) -> tuple[Predict, Predict]:
    right = _registers(name)
    empty = _empty(name, right)
    near = {round(_empty(name, wrong), 2): "That goes with another number of registers." for wrong in NEAR[name]}
    near[round(100 - empty, 2)] = "That is how much of the places is full. Asked is what is empty."
    near = {wrong: said for wrong, said in near.items() if wrong > 0 and abs(wrong - empty) > 0.02 * empty}
    return (
        Predict(
            value=right,
            unit="",
            near=NEAR[name],
            why="each slice of the last two axes lies in whole registers.",
            proof=lambda: _registers(name),
            next="round the last axis up to 128 and the one before to the rows of a tile, and divide by a register.",
            stands_above="It is a small whole number, and such stand everywhere.",
        ),
        Predict(
            value=round(empty, 3),
            unit="%",
            tolerance=0.01,
            near=near,
            why="the rest of the places.",
            proof=lambda: _empty(name, right),
            next="count the places of all registers, and subtract the numbers.",
        ),
    )


EXERCISE = Exercise(
    id="06.1",
    title="Predict: six arrays in registers",
    kind="several",
    defines="filled",
    asks=Several(parts={name: _asked(name) for name in SHAPES}, why="as the tiles lie."),
    hints=(
        "Take one slice, the last two axes, and draw it. How many rows and lanes does a register hold of this dtype?",
        "Lanes up to a multiple of 128. Rows up to 8, of bfloat16 to 16, of int8 to 32; but 3 or 4 rows of float32 "
        "only to 4, and then two tiles share a register. Then times the axes in front.",
        "Places: 1,024 a register for float32, 2,048 for bfloat16, 4,096 for int8. Empty is 1 - numbers / places.",
    ),
    points=2,
)
