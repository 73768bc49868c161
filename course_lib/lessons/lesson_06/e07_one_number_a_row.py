"""A kernel that stores its vector as a column, to repair."""

import jax.numpy as jnp

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.judges import Slip


def _vectors() -> list[tuple]:
    return arguments(("t: f32[N]",), ({"N": 8192}, {"N": 1024}, {"N": 3072}), within=(0, 4))


EXERCISE = Exercise(
    id="06.7",
    title="Repair: one number a row",
    kind="repair",
    defines="decay",
    cases=_vectors,
    reference=lambda t: t * jnp.exp(-t),
    budget=judges.Budget(hbm_bytes=lambda t: cost.stored_bytes(t, t)),
    slips=(
        Slip(
            means="the factor t is missing, so this is exp(-t) alone",
            value=lambda t: jnp.exp(-t),
            next="multiply by t, as the slow kernel does.",
        ),
    ),
    hints=(
        "How many bytes does a row with one element take in HBM? In which shape are 8,192 elements not padded?",
        "You may reshape t outside the kernel, because the kernel does the same to each element, wherever it lies.",
        "Pass t.reshape(-1, 128), in blocks of (8, 128) or as a whole, and reshape the result to t.shape. Or leave t a "
        "vector, in blocks of 1024.",
    ),
    points=2,
)
