"""A maximum with two mistakes that positive numbers hide."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, far_from_zero
from course_lib.lessons.lesson_11.largest import reference

SIZES = ({"M": 8, "N": 256}, {"M": 5, "N": 130})


def _cases() -> list[tuple]:
    """Return negative values, finally very large ones: the initial maximum must be below all of them."""
    return [
        *arguments(("x: f32[M,N]",), SIZES, within=(-4, -1)),
        (far_from_zero((8, 130), -2e37),),
    ]


EXERCISE = Exercise(
    id="11.2",
    title="Repair: the test was green",
    kind="repair",
    defines="mended",
    cases=_cases,
    reference=reference,
    slips=(
        judges.Slip(
            means="the maximum takes in a 0, which is larger than every value of x",
            value=lambda x: jnp.maximum(reference(x), 0),
            next="which value is smaller than every other? Both the initial maximum and the mask need it.",
        ),
    ),
    hints=(
        "Which values does the test draw, and which has it never seen?",
        "What is the largest of three negative values and 0? Look for every place where a 0 can come from; there may "
        "be more than one.",
        "There are two zeros. The maximum starts at one of them, and the other replaces the columns that do not exist. "
        "Which value is smaller than every other?",
    ),
    points=2,
)
