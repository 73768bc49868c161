"""Repair a kernel that writes to an input."""

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_01.vectors import LENGTHS, VECTORS

EXERCISE = Exercise(
    id="01.5",
    title="Repair: a kernel that writes where it reads",
    kind="repair",
    defines="scaled_add_kernel",
    judged="scaled_add",
    inputs=VECTORS,
    sizes=LENGTHS,
    reference=lambda x, y: 2 * x + y,
    slips=(
        judges.Slip(
            means="y is doubled as well", value=lambda x, y: 2 * (x + y), next="double x alone, and then add y."
        ),
        judges.Slip(
            means="x and y are exchanged, so that y is doubled",
            value=lambda x, y: x + 2 * y,
            next="double x, and add y.",
        ),
    ),
    hints=(
        "Which refs may a kernel write to? In its signature, the inputs come first and the outputs last.",
        "You need no room in memory for 2 * x, because a value that you read from a ref is yours to compute with.",
        "One line does it: o_ref[...] = 2 * x_ref[...] + y_ref[...]",
    ),
    points=1,
)
