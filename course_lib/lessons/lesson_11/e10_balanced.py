"""Golf: a matrix whose rows and columns are made to sum to one, in few cycles."""

import jax
import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import CYCLES, Golf

ROUNDS = 24


def reference(x):
    for _ in range(ROUNDS):
        x = x / jnp.sum(x, axis=1, keepdims=True)
        x = x / jnp.sum(x, axis=0, keepdims=True)
    return x


def _cases() -> list[tuple]:
    """Whole registers: the golf is about the loop, not about edges."""
    sizes = ({"M": 16, "N": 128}, {"M": 32, "N": 256}, {"M": 24, "N": 128})
    return [(x / 2 + 1.25,) for (x,) in arguments(("x: f32[M,N]",), sizes, within=(-1, 1))]


def _large() -> tuple:
    return (jax.ShapeDtypeStruct((256, 512), jnp.float32),)


EXERCISE = Exercise(
    id="11.10",
    title="Golf: rows and columns that sum to one",
    kind="golf",
    defines="balanced",
    cases=_cases,
    reference=reference,
    golf=Golf(unit=CYCLES, par=14_000, at=_large, floor=ROUNDS * 128),
    hints=(
        "Where do the cycles go? Each round reads the matrix, writes it, reads and writes it again: one store a "
        "bundle.",
        "After some rounds x is u[:, None] * x0 * v[None, :]. What has to be kept from round to round, and what not?",
        "Keep u and v only: u = 1 / rowsums(x0 * v), v = 1 / columnsums(x0 * u). The matrix is written once, at "
        "the end. Take "
        "parts of the rows, so that both sums of a part come from one load.",
    ),
    points=3,
)
