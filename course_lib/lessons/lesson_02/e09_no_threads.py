"""What hides latency without threads, in words."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.explain import Explain

EXERCISE = Exercise(
    id="02.9",
    title="Explain: where are the threads?",
    kind="explain",
    defines="why",
    asks=Explain(
        model="It has none. A core runs one program, one bundle after another, and each instruction works on 1024 "
        "elements. When a result is missing, the core waits, because it has no other thread to continue with. "
        "Latency is hidden by requesting early: copies run in the background while the core works on the block "
        "before, and the XLU and the MXU accept many requests before they return the first result. The compiler puts "
        "independent work between a request and its pop, but only if the kernel has some in the same iteration, such "
        "as whole blocks or many rows.",
        look_for=(
            "that a core runs one program, in order, with very wide registers",
            "that copies and units work in the background and get their requests early",
            "that the independent work has to be in the kernel, because the core finds none by itself",
        ),
    ),
    hints=(
        "What does the core of a GPU do while one of its threads waits, and what does a TPU's core do?",
        "What runs beside the program? When is it requested, and when is its result fetched?",
        "Write a sentence on the order of the program, one on the background, and one on what your kernel must bring.",
    ),
    points=0,
)
