"""A barrier that signals the wrong neighbor, to be repaired."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_16 import rings


def _halves(x):
    upper, lower = jnp.split(rings.parts(x), 2, axis=1)
    return rings.joined(jnp.concatenate([jnp.roll(upper, 1, axis=0), jnp.roll(lower, -1, axis=0)], axis=1))


EXERCISE = Exercise(
    id="16.4",
    title="Repair: who has entered?",
    kind="repair",
    defines="halves_kernel",
    judged="halves",
    cases=lambda: [(rings.values(0, 64, 128),), (rings.values(1, 64, 256),)],
    reference=_halves,
    mesh=rings.EACH,
    hints=(
        "Each device waits for two signals. Whose are they?",
        "A device copies to both neighbors, so it has to know that both have entered. Who signals it?",
        "Signal the barrier semaphore of left and of right, once each.",
    ),
    points=1,
)
