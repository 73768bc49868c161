"""A kernel of visits with three mistakes, to be repaired."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_15 import groups as of

SIZES = ((10, 0, 22, 8, 24), (16, 32, 16), (1, 62, 1), (0, 64))


def _cases() -> list[tuple]:
    return [
        (
            of.values(seed, 64, 128),
            of.values(9 + seed, len(sizes), 128, 128),
            *of.lists(sizes, 64),
        )
        for seed, sizes in enumerate(SIZES)
    ]


def _grouped(x, w, group, tile, bounds, count):
    return jnp.maximum(of.grouped(x, w, bounds), 0)


def _from_visits(x, w, *lists):
    """Return it where the first row of a tile is counted as that of tile v, the number of the visit."""
    return of.from_visits(jnp.maximum(of.by_each(x, w), 0), *lists)


def _no_relu(x, w, group, tile, bounds, count):
    return of.grouped(x, w, bounds)


def _before_the_matmul(x, w, group, tile, bounds, count):
    return of.grouped(jnp.maximum(x, 0), w, bounds)


def _below_zero(x, w, group, tile, bounds, count):
    return jnp.minimum(of.grouped(x, w, bounds), 0)


EXERCISE = Exercise(
    id="15.5",
    title="Repair: rows of other experts",
    kind="repair",
    defines="relu_kernel",
    judged="relu_of",
    cases=_cases,
    reference=_grouped,
    slips=(
        judges.Slip(
            means="the first row of a tile is taken for row v * TILE, where v is the number of the visit",
            value=_from_visits,
            next="visit v has tile tile_ref[v], whose first row is tile_ref[v] * TILE.",
        ),
        judges.Slip(
            means="the ReLU of the kernel above is missing",
            value=_no_relu,
            next="leave o = jnp.maximum(dot(...), 0) as it was.",
        ),
        judges.Slip(
            means="the ReLU is applied to x, before the matmul",
            value=_before_the_matmul,
            next="leave o = jnp.maximum(dot(...), 0) as it was.",
        ),
        judges.Slip(
            means="values below 0 are kept, and values above 0 are dropped",
            value=_below_zero,
            next="a ReLU keeps the values above 0, by jnp.maximum(..., 0).",
        ),
    ),
    hints=(
        "Take sizes 10 and 22 and tiles of 16 rows. Which rows do the first and the third visit write, and which "
        "should they write?",
        "Answer three questions: what is the number of the first row of a tile, where does a group begin, and what "
        "must stay in the rows of the other groups?",
        "Add tile_ref[v] * TILE to row, let mine begin with row >= bounds_ref[e], and keep o_ref[...] where mine is "
        "False.",
    ),
    points=2,
)
