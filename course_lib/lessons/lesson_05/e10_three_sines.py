"""Golf: a long computation in little VMEM, in as few cycles as possible."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import CYCLES, Golf

MOST_VMEM = 32 * 2**10


def _columns() -> list[tuple]:
    """Return row counts in multiples of 64; the first is scored."""
    return arguments(("x: f32[M,128]",), ({"M": 512}, {"M": 64}), within=(-3, 3))


EXERCISE = Exercise(
    id="05.10",
    title="Golf: three sines in 32 KiB",
    kind="golf",
    defines="waves",
    cases=_columns,
    reference=lambda x: jnp.sin(jnp.sin(jnp.sin(x))),
    budget=judges.Budget(vmem_bytes=MOST_VMEM),
    golf=Golf(unit=CYCLES, par=19_500),
    hints=(
        "pallas_call keeps four blocks of 8 KiB, two in, two out, and a step waits for half a latency. One large "
        "buffer waits for two whole latencies, and for its work, one after another. What could go on at the same time?",
        "The work can be done in place: then all of the VMEM is room for chunks under way, on their way in or out. "
        "Each buffer goes round: filled, worked on, emptied.",
        "Four buffers of 16 rows in place. Keep two reads under way: before a buffer is filled again, wait for the "
        "copy that empties it. Then that wait is short, for it began two turns ago.",
    ),
    points=3,
)
