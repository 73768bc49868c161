"""A kernel that adds two vectors."""

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_01.vectors import LENGTHS, VECTORS

EXERCISE = Exercise(
    id="01.1",
    title="Add two vectors",
    kind="write",
    defines="add_kernel",
    judged="add_vectors",
    inputs=VECTORS,
    sizes=LENGTHS,
    reference=lambda x, y: x + y,
    hints=(
        "x_ref and y_ref are places in memory. x_ref[...] reads all of one as a value that you can compute with.",
        "o_ref[...] = value writes a value to the output.",
        "One line does it: o_ref[...] = x_ref[...] + y_ref[...]",
    ),
    points=1,
)
