"""Golf: a norm before a matmul, with as few bytes as possible."""

import jax
import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import BYTES, Golf

MOST_VMEM = 2**20


def _sizes() -> list[tuple]:
    """Return sizes that blocks of 128 divide; the first is scored."""
    return arguments(("x: f32[M,K]", "w: f32[K,N]"), ({"M": 256, "K": 1024, "N": 256}, {"M": 128, "K": 256, "N": 128}))


def _reference(x, w):
    normed = x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6)
    return jnp.dot(normed, w, preferred_element_type=jnp.float32)


EXERCISE = Exercise(
    id="09.9",
    title="Golf: a norm in front of a product",
    kind="golf",
    defines="norm_product",
    cases=_sizes,
    reference=_reference,
    budget=judges.Budget(vmem_bytes=MOST_VMEM),
    golf=Golf(unit=BYTES, par=3_700_000),
    hints=(
        "A row's factor is one number. Is a row of the product with the normed x a row of x @ w, times something?",
        "(f * x) @ w is f * (x @ w) where f is one number a row. So the factor can wait, and the squares can be added "
        "up while the product is.",
        "One axis in the grid, over blocks of K: x in (M, 128), w in (128, N), the result whole and standing still. A "
        "scratch of (M, 1) collects the sums of squares; in the last step o_ref is multiplied by rsqrt(squares / K + "
        "1e-6).",
    ),
    points=3,
)
