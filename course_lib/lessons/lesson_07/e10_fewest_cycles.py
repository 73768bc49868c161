"""Golf: 4096 x 4096 x 4096 in as few cycles as possible."""

import jax
import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import CYCLES, Golf


def _small() -> list[tuple]:
    """What the judges run; the large product is only compiled."""
    sizes = ({"M": 256, "K": 512, "N": 256}, {"M": 128, "K": 256, "N": 512}, {"M": 512, "K": 128, "N": 128})
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), sizes)


def _large() -> tuple:
    return (jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16),) * 2


EXERCISE = Exercise(
    id="07.10",
    title="Golf: 4096 x 4096 x 4096",
    kind="golf",
    defines="fast",
    cases=_small,
    reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype),
    golf=Golf(unit=CYCLES, par=1_120_000, at=_large),
    hints=(
        "Write down what a step of the lesson's C costs, and what of that are products. What does the rest hang "
        "on: the bytes, or the number of steps?",
        "Fewer steps means longer blocks, along K above all: that costs no bytes. How long can bk be in 16 MiB, "
        "with bm and bn at 512? And with vmem_limit_bytes at 64 MiB?",
        "All of K in one block needs no scratch and no third axis: o_ref is written once. bm = bn = 512.",
    ),
    points=3,
)
