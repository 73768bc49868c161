"""Eight elementwise operations, and which of four prices each has."""

from course_lib import compiler
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several

MEANS = {  # what an operation of that cost would be
    "1 cycle": "That leaves room for four VPU operations, or for three and one of the EUP.",
    "2 to 5": "That is what 8 to 20 VPU operations take.",
    "10 to 40": "That is what 40 to 160 VPU operations take.",
    "over 80": "That is what more than 320 VPU operations take.",
}
CLASSES = {"1 cycle": (0, 1.05), "2 to 5": (1.9, 5), "10 to 40": (9, 40), "over 80": (80, 1e9)}
# operation -> (its row in the table of prices, its column, a question to think about)
ASKED = {
    "log(x)": ("log(x)", "f32, v5e", "Is there a unit for logarithms? If so, what is left for the other units to do?"),
    "sqrt(x)": (
        "sqrt(x)",
        "f32, v5e",
        "The EUP returns an approximation. Is it exact? If not, which unit makes it exact, and in how many steps?",
    ),
    "silu(x)": ("silu(x)", "f32, v5e", "It is x times sigmoid(x). What does a sigmoid cost, as JAX writes it?"),
    "cos(x)": ("cos(x)", "f32, v5e", "No unit of a v5e computes it, and it has to be right at 1e6 as well as at 1."),
    "x // y": (
        "x // y",
        "f32, v5e",
        "It is a division whose result is rounded down, and that has to be right even if the quotient is an integer.",
    ),
    "n % m": ("x % y", "int32, v5e", "Which unit divides integers, a register at a time?"),
    "n ^ m": ("x & y, or, xor", "int32, v5e", "This bitwise operation is one VPU instruction."),
    "max(x, y)": ("max(x, y), min", "f32, v5e", "It is one comparison in the VPU. What does the store beside it take?"),
}


def _class(name: str) -> str:
    row, column, _ = ASKED[name]
    cycles = compiler.op_prices().rows[row].cycles[column]
    return next(said for said, (least, most) in CLASSES.items() if least <= cycles <= most)


def _asked(name: str) -> Choose:
    right, question = _class(name), ASKED[name][2]
    return Choose(
        options=tuple(CLASSES),
        right=right,
        wrong={other: f"{MEANS[other]} {question}" for other in CLASSES if other != right},
        why="that is the compiler's price.",
        proof=lambda: _class(name),
        next="ask which unit takes the first step, and how many VPU operations then make its result right.",
    )


EXERCISE = Exercise(
    id="06.2",
    title="Choose: eight operations, four prices",
    kind="several",
    defines="price_of",
    asks=Several(parts={name: _asked(name) for name in ASKED}, why="these are the compiler's prices."),
    hints=(
        "Beside a load and a store there is room for four VPU operations, or for three and one of the EUP. An "
        "operation that fits into this room costs 1 cycle.",
        "An exact root or reciprocal starts from an approximation by the EUP. A few VPU operations make it exact, and "
        "about as many handle zeros and infinities. That makes twelve, and a cycle has room for four.",
        "Three of the eight cost 1 cycle, two cost 2 to 5, two cost 10 to 40, and one is a long division, bit by bit.",
    ),
    points=2,
)
