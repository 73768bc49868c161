"""Golf: add one vector to four, with as few bytes as possible."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import BYTES, Golf

LENGTHS = (4096, 1024)
MOST_VMEM = 96 * 2**10  # less than the 128 KiB of ys and the result, so they must be cut into blocks


def _one_and_four() -> list[tuple]:
    """Return x, and ys four times as long, which typed inputs cannot express; no block is ragged."""
    return [case for n in LENGTHS for case in arguments(("x: f32[N]", "ys: f32[M]"), ({"N": n, "M": 4 * n},))]


EXERCISE = Exercise(
    id="01.11",
    title="Golf: one vector, added to four",
    kind="golf",
    defines="add_to_each",
    cases=_one_and_four,
    budget=judges.Budget(vmem_bytes=MOST_VMEM),
    reference=lambda x, ys: jnp.tile(x, 4) + ys,
    golf=Golf(unit=BYTES, par=160_000),
    hints=(
        "Make it right first, with a grid of 16 steps, blocks of 1024, and i % 4 in one of the index maps. Which "
        "block is copied more often than it has to be?",
        "A block whose index stays the same stays in VMEM. Which order of the steps keeps the block of x there for "
        "four steps in a row?",
        "There are two ways. Either take block i // 4 of x at step i, and ask which block of ys goes with it, or make "
        "the block of x so large that its index never changes.",
    ),
    points=2,
)
