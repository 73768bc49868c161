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
        "pallas_call keeps four blocks of 8 KiB, two for the input and two for the output, and a step waits for half a "
        "latency. One large buffer waits for two whole latencies and then for its work. What could overlap?",
        "The work can be done in place, and then all of the VMEM holds chunks that are on their way in or out. Each "
        "buffer is filled, worked on and emptied in a cycle.",
        "Use four buffers of 16 rows, in place, and keep two reads in flight. Before a buffer is filled again, wait "
        "for the copy that empties it; that wait is short, because the copy started two iterations earlier.",
    ),
    points=3,
)
