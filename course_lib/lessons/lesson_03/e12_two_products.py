"""Golf: two products with a ReLU between them, and as few bytes as possible."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import BYTES, Golf

KIB = 2**10
MOST_VMEM = 768 * KIB


def _layers() -> list[tuple]:
    """x, and the weights of two layers, in sizes that blocks of (8, 128) divide: bytes are the subject, not edges."""
    sizes = ({"M": 256, "D": 128, "H": 1024}, {"M": 128, "D": 128, "H": 512})
    return arguments(("x: f32[M,D]", "w: f32[D,H]", "v: f32[H,D]"), sizes)


def _two_products(x, w, v):
    hidden = jnp.maximum(jnp.dot(x, w, preferred_element_type=jnp.float32), 0)
    return jnp.dot(hidden, v, preferred_element_type=jnp.float32)


EXERCISE = Exercise(
    id="03.12",
    title="Golf: two products and what lies between them",
    kind="golf",
    defines="two_products",
    cases=_layers,
    reference=_two_products,
    budget=judges.Budget(vmem_bytes=MOST_VMEM),
    golf=Golf(unit=BYTES, par=2_359_296),
    hints=(
        "What is the largest array here, and is it x, w, v, the result, or none of them? Does it have to lie in HBM?",
        "A strip of 128 columns of w makes 128 columns of the hidden array; these meet 128 rows of v. Each strip adds "
        "its part to the result, which may stay where it is meanwhile.",
        "One axis in the grid, over the strips. o_ref's index never changes: set it to zero at step 0, and add the "
        "second product at every step. Which of x, w and v may stand still, and does it fit?",
    ),
    points=3,
)
