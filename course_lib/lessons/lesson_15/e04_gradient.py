"""The gradient of the matrices."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_15 import groups as of

ROWS = 64
SIZES = ((10, 0, 22, 8, 20), (16, 32, 16), (0, 3, 0, 40), (64,), (0, 0, 12, 0))


def _cases() -> list[tuple]:
    """Return groups with and without rows, and rows of nobody: NaN from the second case on."""
    cases = []
    for seed, sizes in enumerate(SIZES):
        x, g = (of.values(n + seed, ROWS, 128).at[sum(sizes) :].set(jnp.nan if seed else 0.5) for n in (0, 50))
        cases.append((x, g, *of.lists(sizes, ROWS, empty=True)))
    return cases


def _gradient(x, g, group, tile, bounds, count):
    return of.gradient(x, g, bounds)


def _running(x, g, group, tile, bounds, count):
    """Return it where the accumulator is cleared at the first step only."""
    return jnp.cumsum(_gradient(x, g, group, tile, bounds, count), axis=0)


EXERCISE = Exercise(
    id="15.4",
    title="The gradient of the matrices",
    kind="write",
    defines="dw_kernel",
    judged="dw",
    cases=_cases,
    reference=_gradient,
    slips=(
        judges.Slip(
            means="the sum of one group goes on in the next",
            value=_running,
            next="clear the accumulator where the group differs from that of the visit before.",
        ),
    ),
    hints=(
        "Which of the refs stays in VMEM while the visits of a group go by? When is its sum complete?",
        "Clear acc_ref at the first visit of a group, and store it at the last: compare group_ref[v] with its "
        "neighbors. Behind the last visit the list repeats its group, so there is no change at v == count_ref[0] - 1: "
        "store there as well. Steps from count_ref[0] on must add nothing.",
        "0 * NaN is NaN, so rows of other groups have to be replaced with 0 in both x and g, before the matmul.",
    ),
    points=3,
)
