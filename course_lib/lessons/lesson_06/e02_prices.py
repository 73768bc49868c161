"""Eight elementwise operations, and which of four costs each has."""

from course_lib import compiler
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several

MEANS = {  # what an operation of that cost would be
    "1 cycle": "That has room for four operations of the VPU, or for three and one of the EUP.",
    "2 to 5": "That is what 8 to 20 operations of the VPU take.",
    "10 to 40": "That is what 40 to 160 operations of the VPU take.",
    "over 80": "That is what more than 320 operations of the VPU take.",
}
CLASSES = {"1 cycle": (0, 1.05), "2 to 5": (1.9, 5), "10 to 40": (9, 40), "over 80": (80, 1e9)}
# what is asked -> (the row in the table of costs, its column, a question to think about)
ASKED = {
    "log(x)": ("log(x)", "f32, v5e", "Is there a unit for logarithms? What is left for the others to do?"),
    "sqrt(x)": (
        "sqrt(x)",
        "f32, v5e",
        "The EUP makes a first guess. Is it exact? Who makes it exact, in how many steps?",
    ),
    "silu(x)": ("silu(x)", "f32, v5e", "It is x times sigmoid(x). What does a sigmoid cost, as JAX writes it?"),
    "cos(x)": ("cos(x)", "f32, v5e", "No unit of a v5e has it. It has to be right at 1e6 as well as at 1."),
    "x // y": (
        "x // y",
        "f32, v5e",
        "A division, and then rounding down so that it is right where it lies on the edge.",
    ),
    "n % m": ("x % y", "int32, v5e", "Which unit divides whole numbers, a register at a time?"),
    "n ^ m": ("x & y, or, xor", "int32, v5e", "The operation on bits is one instruction of the VPU."),
    "max(x, y)": ("max(x, y), min", "f32, v5e", "One comparison of the VPU. What does the store beside it take?"),
}


def _class(name: str) -> str:
    row, column, _ = ASKED[name]
    cycles = compiler.op_prices().rows[row].cycles[column]
    return next(said for said, (least, most) in CLASSES.items() if least <= cycles <= most)


def _asked(name: str) -> Choose:
    right, turn = _class(name), ASKED[name][2]
    return Choose(
        options=tuple(CLASSES),
        right=right,
        wrong={other: f"{MEANS[other]} {turn}" for other in CLASSES if other != right},
        why="so the compiler says.",
        proof=lambda: _class(name),
        next="ask which unit does the first step of it, and how many operations of the VPU make that right.",
    )


EXERCISE = Exercise(
    id="06.2",
    title="Choose: eight operations, four prices",
    kind="several",
    defines="price_of",
    asks=Several(parts={name: _asked(name) for name in ASKED}, why="as the compiler prices them."),
    hints=(
        "Beside a load and a store there is room for four operations of the VPU, or for three and one of the EUP. What "
        "fits costs 1 cycle.",
        "An exact root or reciprocal begins with a guess of the EUP. A few operations of the VPU make it exact, and "
        "about as many are for zeros and infinities: twelve over four.",
        "Three are free, two cost 2 to 5, two 10 to 40, and one is a long division, bit by bit.",
    ),
    points=2,
)
