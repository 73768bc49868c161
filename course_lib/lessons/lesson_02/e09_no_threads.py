"""What hides latency without threads, in words."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="02.9",
    title="Explain: where are the threads?",
    kind="explain",
    defines="why",
    asks=Explain(
        model="There are none. A core runs one program, one bundle after another, and each instruction works on 1024 "
        "numbers. When a result is missing, it waits: it has no other thread to go on with. Latency is hidden by "
        "asking early. Copies run in the background while the core works on the block before; the XLU and the MXU "
        "take many requests before the first is answered. The compiler puts independent work between request and "
        "pop, and can do so only if the kernel has some in the same turn: whole blocks, many rows.",
        look_for=(
            "one program, in order, with very wide registers",
            "copies and units that work in the background, and are asked early",
            "that the independent work has to be in the kernel: the core finds none by itself",
        ),
    ),
    hints=(
        "What does the core of a GPU do while one of its threads waits? What does this one do?",
        "What runs beside the program? When is it asked for, and when is its answer fetched?",
        "One sentence on the sequence, one on the background, one on what your kernel must bring.",
    ),
    points=0,
)
