"""Golf: a running sum of 2048 rows in as few cycles as possible."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.kinds.golf import CYCLES, Golf

REGISTERS = 2048 * 128 // 1024  # registers of the result, each stored once, one per cycle


def _small() -> list[tuple]:
    """Return what all judges run; only the numbers judge sees 2048 rows."""
    return arguments(("x: f32[M,N]",), ({"M": 256, "N": 128}, {"M": 768, "N": 128}))


def _large() -> tuple:
    (_, by_chance) = arguments(("x: f32[M,N]",), ({"M": 2048, "N": 128},))
    return by_chance


EXERCISE = Exercise(
    id="08.10",
    title="Golf: a running sum of 2048 rows",
    kind="golf",
    defines="cumulated",
    cases=_small,
    reference=lambda x: jnp.cumsum(x, axis=0),
    golf=Golf(unit=CYCLES, par=6_000, at=_large, floor=REGISTERS),
    hints=(
        "Row by row is a chain of 2048 sums, each of which fills an eighth of a register. so_far of 08.4 needs five "
        "steps for 32 rows, whatever their number of registers.",
        "Within one register of eight rows three steps do. From register to register only one row is carried. Write "
        "some registers out, in one basic block: then one register's steps fill the gaps of another's. The simulator "
        "carries 2,000 operations.",
        "A grid brings the copies beside the work. But each step waits for half a copy's latency: how few blocks are "
        "enough to hide something?",
    ),
    points=3,
)
