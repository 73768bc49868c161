"""A whole kernel from an empty cell: a product in blocks along all three axes, whatever the sizes."""

import jax
import jax.numpy as jnp

from course_lib import chips, cost, grid, text
from course_lib.checks.exercise import Exercise

LONG = 65_536  # of the axis that is summed over


def _serves_long_sums(matmul):
    """Whether the blocks stay small along all three axes."""
    limit = chips.chip("v5e").scoped_vmem_bytes
    for m, k, n in ((128, LONG, 128), (LONG, 128, 128), (128, 128, LONG)):
        x, w = jax.ShapeDtypeStruct((m, k), jnp.bfloat16), jax.ShapeDtypeStruct((k, n), jnp.bfloat16)
        needs = cost.vmem_bytes(grid.walk(matmul, x, w))
        if needs > limit:
            return (
                f"For x[{m:,}, {k:,}] @ w[{k:,}, {n:,}] it needs {text.size(needs)} of VMEM; a kernel may use "
                f"{text.size(limit)}.",
                "cut the long axis too, into blocks whose size does not grow with it.",
            )
    return None


EXERCISE = Exercise(
    id="04.11",
    title="From an empty cell: a whole product",
    kind="write",
    defines="matmul",
    inputs=("x: bf16[M,K]", "w: bf16[K,N]"),
    sizes=({"M": 32, "K": 256, "N": 256}, {"M": 40, "K": 300, "N": 200}, {"M": 5, "K": 130, "N": 70}),
    reference=lambda x, w: jnp.dot(x, w, preferred_element_type=jnp.float32).astype(x.dtype),
    also=(_serves_long_sums,),
    hints=(
        "First the sizes that blocks divide: a grid of three axes, the one that is summed over last; zero a scratch at "
        "its first step, add a product at each, and write o_ref at its last.",
        "bfloat16 has 8 bits for a number: a sum that is collected in o_ref is rounded at every step. "
        "scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)] is a float32 of your own, behind the outputs.",
        "What hangs over M or N is written nowhere. What hangs over K is added up. Choose with jnp.where, as in 04.8, "
        "and on both sides: 0 times NaN is NaN.",
    ),
    points=3,
)
