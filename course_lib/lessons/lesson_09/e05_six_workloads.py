"""Six workloads: which of them deserve a kernel."""

import functools

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_09 import workloads

OPTIONS = ("dispatch", "compute", "HBM", "kernel")
RIGHT = {"A": "compute", "B": "kernel", "C": "HBM", "D": "HBM", "E": "kernel", "F": "dispatch"}
LONG = "Divide its bytes by 820 GB/s. Is the result below 10 us?"
NO_PRODUCT = "There is no matmul in it."
WRONG = {
    "A": {
        "dispatch": LONG,
        "HBM": "Before you compare XLA's bytes with those that must move: how long do the two matmuls take?",
        "kernel": "XLA moves more than it must. How long do its bytes take, and how long do the 2 x 69 GFLOPs?",
    },
    "B": {
        "dispatch": LONG,
        "compute": NO_PRODUCT,
        "HBM": "Look at the .ops of the report. How many of them read x?",
    },
    "C": {
        "dispatch": LONG,
        "compute": NO_PRODUCT,
        "kernel": "It looks like five operations. How many operations does XLA's program have, and what do they move?",
    },
    "D": {
        "dispatch": LONG,
        "compute": "With 16 rows, the matmul takes a fifteenth of the time that the weights need to arrive.",
        "kernel": "Does XLA write the wide weights anywhere? Look at the .ops of the report.",
    },
    "E": {
        "dispatch": LONG,
        "compute": NO_PRODUCT,
        "HBM": "Two arrays come in, and two go out. Does XLA move only these four?",
    },
    "F": {
        "compute": NO_PRODUCT,
        "HBM": "Work out how long its bytes take, and compare that with the time that it takes to start anything.",
        "kernel": "It moves 1.5 times what must move. How many microseconds is that, and how many does it take to "
        "start a kernel?",
    },
}
WHY = {
    "A": "the matmuls take 0.7 ms, and XLA's bytes a fifth of that.",
    "B": "x is read three times, and once would be enough.",
    "C": "one fusion reads three arrays and writes one.",
    "D": "the weights arrive as int8 and are widened in the fusion that multiplies.",
    "E": "XLA reads the sum again.",
    "F": "its bytes take half a microsecond.",
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
                next="work out three times: those of the bytes that must move, of XLA's bytes, and of the matmuls.",
            )
            for name in RIGHT
        },
        why="two of the six deserve a kernel, and neither contains a matmul.",
    ),
    hints=(
        "Go through the list in its order. Is the function tiny? Does it have matmuls, and do they take longer than "
        "XLA's bytes? Only then compare XLA's bytes with those that must move.",
        'With fn, args = workloads["A"] and report = compiler.compile_tpu(fn, *args, simulate=False), compare '
        "report.hbm_bytes with must(fn, *args). A matmul of (m, k) and (k, n) has 2 m k n FLOPs.",
        "Look for rows that are reduced and then used, because XLA reads them again. A chain of elementwise operations "
        "is one fusion, and so is a matmul with the elementwise operations around it and a reduction after it.",
    ),
    points=3,
)
