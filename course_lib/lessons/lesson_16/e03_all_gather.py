"""A ring all-gather, to the left."""

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_16 import rings

EXERCISE = Exercise(
    id="16.3",
    title="An all-gather",
    kind="write",
    defines="gathered",
    cases=lambda: [(rings.values(0, 32, 128),), (rings.values(1, 64, 256),)],
    reference=lambda x: x,
    mesh=rings.GATHERED,
    hints=(
        "Which rows does a device send in the first step, which in the second? Draw four devices, and what each has "
        "after each step.",
        "In step s a device passes on what it received in step s - 1: the rows of the device that is s places to its "
        "right. They go to the same place of the neighbor's result. Do the arrivals of two steps share a semaphore?",
        "part = o_ref.at[pl.ds(lax.rem(me + step, n) * rows, rows)] is both source and target. Copy your own rows "
        "there first, enter together, and give each step its own receive semaphore.",
    ),
    points=3,
)
