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
    "VPU": "The VPU works lane by lane: an element meets the element in the same place of another register.",
    "EUP": "The EUP computes exp, tanh, log, and a first approximation of a reciprocal.",
    "XLU": "The XLU moves data between lanes, the 128 columns of a register.",
    "MXU": "The MXU multiplies matrices.",
    "scalar": "The scalar unit takes single values from SMEM, and adds, multiplies and compares them.",
}
TURNS = {  # the question whose answer decides
    "column max": "A column lies in one lane. Which registers does its maximum compare?",
    "row max": "A row lies across all lanes of a sublane. Which elements have to meet there?",
    "x * row": "The row has an element in each lane already, which only has to be copied to the other sublanes.",
    "x * column": "The column has one element per row, in one lane. How many lanes need it?",
    "1 / x": "The VPU does the Newton steps. Which unit makes the first approximation of a reciprocal?",
    "rows down": "Each element moves to another sublane. Does it change its lane?",
    "n // m": "A register holds many of these integers. Is there a unit that divides integers?",
    "q @ k.T": "Is the transpose an operation of its own, or can the matmul take the operand as it is?",
    "s + 1": "s is a single value, which is read from SMEM, and the sum is stored there.",
    "x ** 2.5": "x cannot be multiplied by itself two and a half times, so a logarithm is used. Which unit has that?",
}


NEXT = {
    "n // m": "look at the picture of the core: which units work on a whole register at a time?",
    "s + 1": "look where s is: a read from SMEM gives one value, and not a register.",
    "x ** 2.5": "look at the lesson's list of units: which of them has exp and log?",
    "1 / x": "look at the lesson's list of units: which of them approximates 1/x?",
    "q @ k.T": "look at the lesson's list of units: which of them multiplies matrices?",
}
LANES = "draw one register, 8 sublanes by 128 lanes, and mark where the elements that meet start and end."


def _asked(name: str) -> Choose:
    right = RIGHT[name]
    return Choose(
        options=operations.UNITS,
        right=right,
        wrong={unit: f"{ASKS[unit]} {TURNS[name]}" for unit in operations.UNITS if unit != right},
        why="the compiled program uses this unit.",
        proof=lambda: operations.unit(name),
        next=NEXT.get(name, LANES),
    )


EXERCISE = Exercise(
    id="02.5",
    title="Choose: ten operations, five units",
    kind="several",
    defines="unit_of",
    asks=Several(parts={name: _asked(name) for name in operations.NAMES}, why="the compiled programs use these units."),
    hints=(
        "Where are the elements that meet: in one lane, in different lanes, in different registers, or in SMEM?",
        "Data crosses lanes along a row, or from one lane to all. Down a column, it stays in its lane.",
        "Two operations belong to the XLU, two to the EUP, one to the MXU and one to the scalar unit.",
    ),
    points=2,
)
