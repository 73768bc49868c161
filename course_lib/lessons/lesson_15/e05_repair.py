"""A kernel of visits with three mistakes: to be repaired."""

import jax.numpy as jnp

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


EXERCISE = Exercise(
    id="15.5",
    title="Repair: rows of other experts",
    kind="repair",
    defines="relu_kernel",
    judged="relu_of",
    cases=_cases,
    reference=_grouped,
    hints=(
        "Take sizes 10 and 22 and tiles of 16 rows. Which rows does the first visit write, and which should it write? "
        "And the third?",
        "Three questions: what is the number of the first row of a tile, where does a group begin, and what must stay "
        "in the rows of the other groups?",
        "Add tile_ref[v] * TILE to row; row >= bounds_ref[e]; and keep o_ref[...] where mine is False.",
    ),
    points=2,
)
