"""Four copies that arrive on one semaphore, to be repaired."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_16 import rings

EXERCISE = Exercise(
    id="16.5",
    title="Repair: which copy has arrived?",
    kind="repair",
    defines="add_left_kernel",
    judged="add_left",
    cases=lambda: [(rings.values(0, 128, 128),), (rings.values(1, 128, 256),)],
    reference=lambda x: x + rings.joined(jnp.roll(rings.parts(x), 1, axis=0)),
    mesh=rings.EACH,
    hints=(
        "All four copies are under way at once. What does the receive semaphore count, and what does a wait subtract?",
        "Half of the bytes of two quarters are as many as one quarter. After the first wait, what has arrived?",
        "Let quarter q arrive on recv_sem.at[q]. One send semaphore is enough, because nothing overwrites x_ref, and "
        "the four waits at the end together wait for all four copies.",
    ),
    points=2,
)
