"""Ten operations, and the unit that executes each of them."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_02 import operations

RIGHT = {
    "column max": "VPU",
    "row max": "XLU",
    "x * row": "VPU",
    "x * column": "XLU",
    "1 / x": "EUP",
    "rows down": "VPU",
    "n // m": "VPU",
    "q @ k.T": "MXU",
    "x ** 2.5": "EUP",
    "s + 1": "scalar",
}
ASKS = {  # for each unit chosen in place of the right one
    "VPU": "It works lane by lane: number 5 of one register meets number 5 of another.",
    "EUP": "It makes exp, tanh, log, and the first guess of a reciprocal.",
    "XLU": "It moves numbers between lanes, the 128 columns of a register.",
    "MXU": "It multiplies matrices.",
    "scalar": "It has single numbers in SMEM, and adds, multiplies and compares them.",
}
TURNS = {  # the question whose answer decides
    "column max": "A column lies in one lane. Which registers does its maximum compare?",
    "row max": "A row lies across all lanes of a sublane. What has to meet there?",
    "x * row": "The row has a number for each lane already. What is missing is the same in each sublane.",
    "x * column": "The column has one number for a row, in one lane. How many lanes need it?",
    "1 / x": "The Newton steps behind it are the VPU's. Who makes the first guess of a reciprocal?",
    "rows down": "Each number goes to another sublane. Does it change its lane?",
    "n // m": "Whole numbers, a register of them at a time. Is there a unit that divides them?",
    "q @ k.T": "Is the transposed operand an operation of its own, or can the product take it as it comes?",
    "s + 1": "s is one number, read from SMEM, and the sum goes back there.",
    "x ** 2.5": "x times itself two and a half times? A power is made with a logarithm. Which unit has that?",
}


NEXT = {
    "n // m": "ask which units of the picture work on whole numbers, a register at a time.",
    "s + 1": "look where s lies: read from SMEM it is one number, and not a register.",
    "x ** 2.5": "look which unit of the picture has exp and log.",
    "1 / x": "look which unit of the picture makes a first guess of 1/x.",
    "q @ k.T": "look which unit of the picture multiplies matrices.",
}
LANES = "draw one register, 8 sublanes by 128 lanes, and where the numbers that meet start and end."


def _asked(name: str) -> Choose:
    right = RIGHT[name]
    return Choose(
        options=operations.UNITS,
        right=right,
        wrong={unit: f"{ASKS[unit]} {TURNS[name]}" for unit in operations.UNITS if unit != right},
        why="so the program says.",
        proof=lambda: operations.unit(name),
        next=NEXT.get(name, LANES),
    )


EXERCISE = Exercise(
    id="02.5",
    title="Choose: ten operations, five units",
    kind="several",
    defines="unit_of",
    asks=Several(parts={name: _asked(name) for name in operations.NAMES}, why="as the compiler's programs say."),
    hints=(
        "Where do the numbers lie that meet? In one lane, in different lanes, in different registers, in SMEM?",
        "Between lanes: along a row, or from one lane to all. Between sublanes and registers: down a column.",
        "Two are the XLU's, two the EUP's, one is the MXU's and one the scalar unit's.",
    ),
    points=2,
)
