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
            f"For vectors of {HUGE.size:,} elements, blend needs {text.size(needs)} of VMEM, but a kernel may use only "
            f"{text.size(limit)}.",
            "give it a grid, and blocks whose size does not grow with the vectors. There are four, each held twice.",
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
            means="x and y are exchanged, so that the result is y where t is 0",
            value=lambda x, y, t: y + t * (x - y),
            next="make the result x where t is 0, and y where t is 1.",
        ),
    ),
    also=(_serves_a_huge_vector,),
    also_at=lambda: [tuple(at_random(HUGE, number, (0, 1)) for number in range(3))],
    hints=(
        "Begin with what you know, which is a kernel of four refs and a pallas_call as in add_vectors. Once it passes "
        "for short vectors, cut them into blocks.",
        "How many blocks of 1024 does a vector of 2500 elements have? Two would leave elements out, but pl.cdiv(a, b) "
        "divides and rounds up.",
        "The last block may extend past the end, because what is written there is discarded. One BlockSpec serves all "
        "four refs: in_specs is a list of three, and out_specs is one.",
    ),
    points=2,
)
