"""Golf: a running sum of 2048 rows in as few cycles as possible."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from course_lib import judges
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


def _by_registers(wrong: Callable):
    """Return the running sum register by register, where ``wrong(carry, register)`` is (its rows, the next carry)."""

    def value(x):
        registers = x.reshape(-1, 8, x.shape[1])
        return jax.lax.scan(wrong, jnp.zeros_like(x[:1]), registers)[1].reshape(x.shape)

    return value


def _carry_counted_twice(carry, register):
    rows = carry + jnp.cumsum(register, axis=0)
    return carry + rows[-1:], rows


def _carry_before_the_steps(carry, register):
    rows = jnp.cumsum(register + carry, axis=0)
    return rows[-1:], rows


def _first_row_carried(carry, register):
    rows = carry + jnp.cumsum(register, axis=0)
    return rows[:1], rows


EXERCISE = Exercise(
    id="08.10",
    title="Golf: a running sum of 2048 rows",
    kind="golf",
    defines="cumulated",
    cases=_small,
    reference=lambda x: jnp.cumsum(x, axis=0),
    golf=Golf(unit=CYCLES, par=6_000, at=_large, floor=REGISTERS),
    slips=(
        judges.Slip(
            means="the carry is counted twice, because the last row of a register already contains it",
            value=_by_registers(_carry_counted_twice),
            next="carry the last row as it is: carry = value[7:8].",
        ),
        judges.Slip(
            means="the carry is added before the rows of a register are summed, so row r gets it r + 1 times",
            value=_by_registers(_carry_before_the_steps),
            next="sum the rows of the register first, and then add the carry to each.",
        ),
        judges.Slip(
            means="the first row of a register is carried, but the last one has the sum",
            value=_by_registers(_first_row_carried),
            next="carry the last row: carry = value[7:8].",
        ),
    ),
    hints=(
        "Adding row by row is a chain of 2048 additions, each of which fills an eighth of a register. so_far of 08.4 "
        "needs five steps for 32 rows, whatever their number of registers.",
        "Within one register of eight rows, three steps are enough. From register to register only one row is "
        "carried. Write some registers out in one basic block, so that the steps of one register fill the gaps of "
        "another. The simulator takes kernels of up to 2,000 operations.",
        "With a grid, copies overlap with work, but each step waits for half of a copy's latency. What is the "
        "smallest number of blocks that still hides something?",
    ),
    points=3,
)
