"""Two partners swap their arrays."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_16 import rings

EXERCISE = Exercise(
    id="16.2",
    title="Swap with a partner",
    kind="write",
    defines="swap_kernel",
    judged="swapped",
    cases=lambda: [(rings.values(0, 32, 128),), (rings.values(1, 64, 256),)],
    reference=lambda x: rings.joined(rings.parts(x)[jnp.array([1, 0, 3, 2])]),
    mesh=rings.EACH,
    hints=(
        "Compute the partner's index first: it is one more for an even index, and one less for an odd one.",
        "Before you copy, you need one signal, from the partner: it says that the partner has entered the kernel.",
        "partner = me + 1 - 2 * lax.rem(me, 2). Signal the barrier semaphore of the partner, wait for 1, then start a "
        'remote copy of x_ref to o_ref with device_id={"d": partner}, and wait for both of its ends.',
    ),
    points=2,
)
