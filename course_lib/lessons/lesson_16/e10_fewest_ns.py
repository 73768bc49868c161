"""Golf: a collective matmul, in the fewest predicted (model) nanoseconds."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import NANOSECONDS, Golf
from course_lib.lessons.lesson_16 import rings

ROWS, DEPTH, COLUMNS = 16, 128, 256  # of one device's x and w
SCALE = 256.0  # 1 MiB for 4 KiB
BLOCK_S = 10.9e-6  # of 256 rows of 2,048 elements times a 2,048 x 2,048 matrix, at the peak of a v5e


def _cases() -> list[tuple]:
    return [
        (
            rings.values(seed, rings.DEVICES * ROWS, DEPTH, dtype="bfloat16"),
            rings.values(9 + seed, DEPTH, rings.DEVICES * COLUMNS, dtype="bfloat16"),
        )
        for seed in range(2)
    ]


def work(event) -> float:
    """Return the seconds of a matmul with as many results as the core stores at an event."""
    if event.buffer.space != "vmem" or not event.in_kernel:
        return 0.0
    return event.amount / (ROWS * COLUMNS) * BLOCK_S


EXERCISE = Exercise(
    id="16.10",
    title="Golf: a collective matmul",
    kind="golf",
    defines="all_gather_matmul",
    cases=_cases,
    reference=lambda x, w: jnp.dot(x, w, preferred_element_type=jnp.float32),
    mesh=rings.MATMUL,
    also=(rings.own_kernel(rings.MATMUL, lambda: _cases()[0]),),
    golf=Golf(unit=NANOSECONDS, par=55_000, scale=SCALE, work=work),
    hints=(
        "In the kernel that is given, when does the core multiply, and what do the links do meanwhile?",
        "Multiply your own rows while the first copies travel, and then each part that has arrived while the next one "
        "travels. Then halve the time of the copies, as in 16.7.",
        "For each step: wait for the halves of the step before, start passing them on, and only then multiply them. "
        "Wait for what you have sent at the end. Half of the rows of the device opposite can come each way.",
    ),
    points=4,
)
