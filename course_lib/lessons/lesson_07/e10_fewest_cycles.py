"""Golf: a matmul of 4096 x 4096 x 4096 in as few cycles as possible."""

import jax
import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, at_random
from course_lib.checks.kinds.golf import CYCLES, Golf

ROOM = 1_075_003  # cycles of (512, 4096, 512), which the lesson prints under "Room", libtpu 0.0.48


def _small() -> list[tuple]:
    """Return what all judges run. The second has several blocks of 512 on two axes, the third along K."""
    sizes = ({"M": 128, "K": 512, "N": 128}, {"M": 1024, "K": 128, "N": 1024}, {"M": 128, "K": 1024, "N": 256})
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), sizes)


def _large() -> tuple:
    """Return what is scored. The numbers judge runs it too, for about 12 s on two cores: no work may be left out."""
    return tuple(at_random(jax.ShapeDtypeStruct((4096, 4096), jnp.bfloat16), number) for number in (0, 1))


EXERCISE = Exercise(
    id="07.10",
    title="Golf: 4096 x 4096 x 4096",
    kind="golf",
    defines="fast",
    cases=_small,
    reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype),
    golf=Golf(unit=CYCLES, par=ROOM - 1, at=_large, floor=4096**3 // 65_536),
    hints=(
        "How many of the cycles that (512, 4096, 512) takes beyond its matmul go to the first copy, of two 4 MiB "
        "blocks? Nothing can be multiplied before it has arrived. HBM delivers some 540 bytes per cycle on a v5e.",
        "The first block of the output can begin with pieces: 512 columns of x and 512 rows of y are enough for part "
        "of the sum. A BlockSpec cannot do that, but memory_space=pl.ANY and pltpu.make_async_copy can (lesson 5).",
        "x and y, 64 MiB together, fit into VMEM whole. Start all copies at once, the pieces of the first strips "
        "before the rest, each with its own semaphore. Wait for each copy where its data is first used, and give the "
        "output two buffers.",
    ),
    points=3,
)
