"""An all-gather whose halves travel both ways."""

from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_16 import rings

SHARE, SHARD = 0.55, 4 * rings.MI


def _scored() -> tuple:
    return (rings.values(2, 32, 128),)


EXERCISE = Exercise(
    id="16.7",
    title="Both ways",
    kind="write",
    defines="gathered_both_ways",
    cases=lambda: [_scored(), (rings.values(1, 64, 256),)],  # what is timed is judged, too
    reference=lambda x: x,
    mesh=rings.GATHERED,
    also=(
        rings.own_kernel(rings.GATHERED, _scored),
        rings.at_most(SHARE, SHARD, rings.GATHERED, _scored, 8 * 128 * 4),
    ),
    hints=(
        "In 16.3 each link carries bytes in one direction only. What else could travel the other way at the same time?",
        "Let the upper half of each device's rows travel to the right, and the lower half to the left, in the same "
        "step. Each way needs its own semaphores.",
        "For each step make two copies, of pl.ds(start, half), with start = lax.rem(me + n - step, n) * rows on the "
        "way to the right, and lax.rem(me + step, n) * rows + half to the left. Start both, and then wait for both.",
    ),
    points=3,
)
