"""A buffer that is written while it is sent, to be repaired."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_16 import rings


def _spread(x):
    each = rings.parts(x)
    return rings.joined(each / 2 + jnp.roll(each, 1, axis=0) / 4 + jnp.roll(each, -1, axis=0) / 8)


EXERCISE = Exercise(
    id="16.6",
    title="Repair: still on its way",
    kind="repair",
    defines="spread_kernel",
    judged="spread",
    cases=lambda: [(rings.values(0, 32, 128),), (rings.values(1, 64, 256),)],
    reference=_spread,
    mesh=rings.EACH,
    hints=(
        "What does wait_recv() say about the copy that this device has started? Whose copy has arrived?",
        "The second iteration writes to scaled_ref. Has the copy of the first iteration finished reading it?",
        "Wait for both ends of the copy in each iteration: copy.wait() in place of copy.wait_recv().",
    ),
    points=2,
)
