"""Six arrays, with the registers that each takes and the share of them that is padding."""

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
        10: "10,000 elements would fill that many if they lay back to back. But they lie in rows, and rows are padded.",
        25: "That counts two registers for 100 lanes. How many lanes does a register have?",
        104: "That is 100 rounded up to a multiple of 8. A register holds 8 rows of 128 lanes each.",
    },
    "B": {
        5: "That many would be enough if two slices of 4 rows shared a register. What does each index of the first "
        "axis start?",
        1: "That is the count for a single slice. How many slices are there?",
        36: "That gives each row a register of its own, but only the axes before the last two do that.",
        4: "That takes the first axis for the rows. Which two axes go to the rows and lanes of a register?",
    },
    "C": {
        8: "That would be right if 3 rows were rounded up to 8. They are stored in tiles of 4 rows, and how many of "
        "those does a register hold?",
        3: "2,700 elements would fit into three, but 900 lanes are rounded up to 1,024, and 3 rows to 4.",
        24: "That gives each row registers of its own, but several rows share one.",
    },
    "D": {
        12: "That is right for float32. How many rows of bfloat16 does a register hold?",
        5: "That many would be full if nothing were padded, but 200 lanes are rounded up to 256.",
        3: "That puts all 200 lanes into one register. How many lanes does a register have?",
        24: "That is twice what float32 would take. Two bfloat16 rows share a sublane, so they take less and not more.",
    },
    "E": {
        16: "That is right for float32. How many rows of int8 does a register hold?",
        2: "That puts 130 lanes into one register, but they need two, and the second is nearly empty.",
        8: "That is right for 16 rows in a register, as with bfloat16. How many rows of int8 does it hold?",
        3: "That many would be full if nothing were padded, but 130 lanes are rounded up to 256.",
    },
    "F": {
        1: "500 elements would fit into one if they lay side by side. Here each has its own row, and so 128 lanes.",
        500: "That gives each row a register of its own, but eight rows share one.",
        62: "That leaves out the last four rows. They fill only half a register, so round up.",
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
    near = {round(_empty(name, wrong), 2): "That share belongs to another number of registers." for wrong in NEAR[name]}
    near[round(100 - empty, 2)] = "That is the share that is full, but the question asks for the share that is empty."
    near = {wrong: said for wrong, said in near.items() if wrong > 0 and abs(wrong - empty) > 0.02 * empty}
    return (
        Predict(
            value=right,
            unit="",
            near=NEAR[name],
            why="each slice of the last two axes takes whole registers.",
            proof=lambda: _registers(name),
            next="round the last axis up to 128 and the one before to the rows of a tile, and divide by the size of a "
            "register.",
            stands_above="It is a small integer, and those appear everywhere.",
        ),
        Predict(
            value=round(empty, 3),
            unit="%",
            tolerance=0.01,
            near=near,
            why="the rest of the places hold elements.",
            proof=lambda: _empty(name, right),
            next="count the places of all registers, and subtract the elements.",
        ),
    )


EXERCISE = Exercise(
    id="06.1",
    title="Predict: six arrays in registers",
    kind="several",
    defines="filled",
    asks=Several(parts={name: _asked(name) for name in SHAPES}, why="every array is counted in whole tiles."),
    hints=(
        "Draw one slice, that is, the last two axes. How many rows and lanes does a register hold for this dtype?",
        "Round the lanes up to a multiple of 128. Round the rows up to 8 for float32, to 16 for bfloat16, and to 32 "
        "for int8. But 3 or 4 rows of float32 are only rounded up to 4, and then two tiles share a register. Multiply "
        "by the axes in front.",
        "A register has 1,024 places for float32, 2,048 for bfloat16 and 4,096 for int8. The empty share is 1 - "
        "elements / places.",
    ),
    points=2,
)
