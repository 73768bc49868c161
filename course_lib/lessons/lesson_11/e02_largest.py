"""A maximum with two mistakes that positive numbers hide."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, far_from_zero
from course_lib.lessons.lesson_11.largest import reference

SIZES = ({"M": 8, "N": 256}, {"M": 5, "N": 130})


def _cases() -> list[tuple]:
    """Return negative values, finally very large ones: the initial maximum must be below all of them."""
    return [*arguments(("x: f32[M,N]",), SIZES, within=(-4, -1)), (far_from_zero((8, 130), -1e30),)]


EXERCISE = Exercise(
    id="11.2",
    title="Repair: the test was green",
    kind="repair",
    defines="mended",
    cases=_cases,
    reference=reference,
    slips=(
        judges.Slip(
            means="a 0 is among the numbers, and it is larger than all of x",
            value=lambda x: jnp.maximum(reference(x), 0),
            next="which number is smaller than every other? Ask it of the beginning, and of the mask.",
        ),
        *(
            judges.Slip(
                means=f"the maximum begins with {low:g}, or the mask puts it in, and it is larger than all of x",
                value=lambda x, low=low: jnp.maximum(reference(x), low),
                next="-jnp.inf is smaller than every other number, and no finite one is.",
            )
            for low in (-1e4, -1e6, -1e9, -1e10, -1e20)
        ),
    ),
    hints=(
        "Which numbers does the test draw? Which has it never seen?",
        "What is the largest of three negative numbers and 0? Where does a 0 come from? "
        "There may be more places than one.",
        "Two zeros: one is where the maximum begins, one stands for the columns that do not exist. What is "
        "smaller than every "
        "number?",
    ),
    points=2,
)
