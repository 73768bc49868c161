"""Six workloads: which of them deserve a kernel."""

import functools

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_09 import workloads

OPTIONS = ("dispatch", "compute", "HBM", "kernel")
RIGHT = {"A": "compute", "B": "kernel", "C": "HBM", "D": "HBM", "E": "kernel", "F": "dispatch"}
LONG = "Divide its bytes by 820 GB/s. Is that below 10 us?"
NO_PRODUCT = "There is no matrix product in it."
WRONG = {
    "A": {
        "dispatch": LONG,
        "HBM": "Compare what XLA moves with what must be moved. And before that: how long do the two products take?",
        "kernel": "XLA moves more than it must. What do its bytes take, and what do the 2 x 69 GFLOPs?",
    },
    "B": {
        "dispatch": LONG,
        "compute": NO_PRODUCT,
        "HBM": "Look at .ops of the report: which of them read x?",
    },
    "C": {
        "dispatch": LONG,
        "compute": NO_PRODUCT,
        "kernel": "It looks like five operations. How many ops has XLA's program, and what do they move?",
    },
    "D": {
        "dispatch": LONG,
        "compute": "With 16 rows the products take a fifteenth of the time that the weights take to arrive.",
        "kernel": "Does XLA write the wide weights anywhere? Its .ops tell.",
    },
    "E": {
        "dispatch": LONG,
        "compute": NO_PRODUCT,
        "HBM": "Two arrays come in, two go out. Does XLA move four?",
    },
    "F": {
        "compute": NO_PRODUCT,
        "HBM": "Work out how long its bytes take, and compare that with what it takes to start anything.",
        "kernel": "It moves half as much again as it must. How many microseconds is that, and how many does the start "
        "of a kernel take?",
    },
}
WHY = {
    "A": "the products take 0.7 ms, XLA's bytes a fifth of that.",
    "B": "x is read three times and need be read once.",
    "C": "one fusion reads three arrays and writes one.",
    "D": "the weights come as bytes and are widened on the way.",
    "E": "the sum comes in again.",
    "F": "half a microsecond of bytes.",
}

EXERCISE = Exercise(
    id="09.5",
    title="Six workloads: a kernel, or not?",
    kind="several",
    defines="worth",
    asks=Several(
        parts={
            name: Choose(
                options=OPTIONS,
                right=RIGHT[name],
                wrong=WRONG[name],
                why=WHY[name],
                proof=functools.partial(workloads.verdict, name),
                next="work out three times: the bytes that must be moved, XLA's bytes, the products.",
            )
            for name in RIGHT
        },
        why="two of six deserve a kernel, and no product is among them.",
    ),
    hints=(
        "Ask in the order of the list: is it tiny? Are there products, and do they take longer than the bytes? Only "
        "then compare bytes with bytes.",
        "report = compiler.compile_tpu(*flat) with flat = (fn, *args) and simulate=False; then report.hbm_bytes / "
        "must(fn, *args). A product of (m, k) and (k, n) is 2 m k n FLOPs.",
        "Rows that are reduced and then used again are read again: look for them. Elementwise chains are one fusion, "
        "and so is a product with its elementwise neighbours, and with a reduction behind it.",
    ),
    points=3,
)
