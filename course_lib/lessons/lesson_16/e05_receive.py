"""Four copies that arrive on one semaphore, to be repaired."""

from collections.abc import Callable

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_16 import rings


def _case() -> tuple:
    return (rings.values(0, 128, 128),)


def adds_on_the_way(one_device: Callable) -> tuple[str, str] | None:
    """Report that device 0 stores nothing before its last wait for an arrival; None if it stores some quarters."""
    events = rings.events(one_device, rings.EACH, _case)
    arrive = {copy.semaphore for copy in rings.between(events)}
    last_wait = max(n for n, e in enumerate(events[0]) if e.kind == "wait" and e.semaphore in arrive)
    if not any(e.kind == "write" and e.in_kernel for e in events[0][:last_wait]):
        return (
            "The values are right, but the kernel stores nothing until all four quarters have arrived.",
            "keep the loop that waits for a quarter and adds it, and repair the line that says where it arrives.",
        )
    return None


EXERCISE = Exercise(
    id="16.5",
    title="Repair: which copy has arrived?",
    kind="repair",
    defines="add_left_kernel",
    judged="add_left",
    cases=lambda: [_case(), (rings.values(1, 128, 256),)],
    reference=lambda x: x + rings.joined(jnp.roll(rings.parts(x), 1, axis=0)),
    mesh=rings.EACH,
    also=(adds_on_the_way,),
    hints=(
        "All four copies are under way at once. What does the receive semaphore count, and what does a wait subtract?",
        "Half of the bytes of two quarters are as many as one quarter. After the first wait, what has arrived?",
        "Let quarter q arrive on recv_sem.at[q]. One send semaphore is enough, because nothing overwrites x_ref, and "
        "the four waits at the end together wait for all four copies.",
    ),
    points=2,
)
