"""A whole kernel from an empty cell: a blend of two vectors of any length."""

import jax
import jax.numpy as jnp

from course_lib import chips, cost, grid, judges, text
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import at_random

HUGE = jax.ShapeDtypeStruct((2**21,), jnp.float32)  # four of them take 32 MiB


def _serves_a_huge_vector(blend):
    """Demand that a blend of 2 Mi elements fits into the VMEM that one kernel may use."""
    limit = chips.chip("v5e").scoped_vmem_bytes
    needs = cost.vmem_bytes(grid.walk(blend, HUGE, HUGE, HUGE))
    if needs > limit:
        return (
            f"For vectors of {HUGE.size:,} numbers it needs {text.size(needs)} of VMEM; a kernel may use "
            f"{text.size(limit)}.",
            "give it a grid, and blocks whose size does not grow with the vectors: four of them, each held twice.",
        )
    return None


EXERCISE = Exercise(
    id="01.10",
    title="From an empty cell: a blend of any length",
    kind="write",
    defines="blend",
    inputs=("x: f32[N]", "y: f32[N]", "t: f32[N]"),
    sizes=({"N": 4096}, {"N": 2500}, {"N": 130}),
    within=(0, 1),
    reference=lambda x, y, t: x + t * (y - x),
    slips=(
        judges.Slip(
            means="x and y have changed places: where t is 0, the result is y",
            value=lambda x, y, t: y + t * (x - y),
            next="where t is 0 the result is x, and where it is 1, y.",
        ),
    ),
    also=(_serves_a_huge_vector,),
    also_at=lambda: [tuple(at_random(HUGE, number, (0, 1)) for number in range(3))],
    hints=(
        "Begin with what you know: a kernel of four refs, and a pallas_call as in add_vectors. Does it pass for short "
        "vectors? Then cut.",
        "How many blocks of 1024 does a vector of 2500 have? Two would leave numbers out. pl.cdiv(a, b) divides and "
        "rounds up.",
        "The last block may hang over the end: what is written there goes nowhere. One BlockSpec serves all four "
        "refs: in_specs is a list of three, out_specs is one.",
    ),
    points=2,
)
