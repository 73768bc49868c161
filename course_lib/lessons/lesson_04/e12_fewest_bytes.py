"""Golf: a matmul in little VMEM, with as few bytes as possible."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import BYTES, Golf

MOST_VMEM = 448 * 2**10


def _wide_products() -> list[tuple]:
    """Return sizes that blocks of (64, 256) divide: 04.11 is about edges, this one about bytes."""
    sizes = ({"M": 256, "K": 128, "N": 1280}, {"M": 128, "K": 128, "N": 512})
    return arguments(("x: f32[M,K]", "w: f32[K,N]"), sizes)


EXERCISE = Exercise(
    id="04.12",
    title="Golf: a product in little VMEM",
    kind="golf",
    defines="product",
    cases=_wide_products,
    reference=lambda x, w: jnp.dot(x, w, preferred_element_type=jnp.float32),
    budget=judges.Budget(vmem_bytes=MOST_VMEM),
    golf=Golf(unit=BYTES, par=2_621_440),
    hints=(
        "With output blocks of (bm, bn), x and w are fetched in strips. Write down, for both orders of the grid, how "
        "often all of x and all of w are fetched. Which sizes make the two numbers small and still fit?",
        "If a strip of w stays in VMEM, its bytes are moved once, and x is fetched once for each strip of w. Blocks of "
        "(64, 256) fit.",
        "At the end of a strip, the last block of x is in VMEM, but the next strip begins with the first block. "
        "Must it? An index map may compute: jnp.where(j % 2 == 0, ..., ...) reverses direction in every second strip.",
    ),
    points=3,
)
