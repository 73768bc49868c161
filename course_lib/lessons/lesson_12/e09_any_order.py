"""A whole kernel from an empty cell: a block-sparse matmul for lists in any order and of any length."""

import jax.numpy as jnp
import numpy as np

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_12.lists import SIDE, bfloat16, block_product, drawn, int32

ROWS = 8
MOST_CYCLES = 28_000


def _cases() -> list[tuple]:
    """Return shuffled lists of 40, 13, 1 and 3 blocks, with places that occur twice and with empty rows."""
    mixed = []
    for n, (count, side, wide) in enumerate(
        ((40, (8, 8), 1024), (13, (8, 2), 256), (1, (3, 4), 512), (3, (1, 1), 256))
    ):
        rows, cols = drawn(min(count, side[0] * side[1]), side, n)
        twice = np.arange(count) % len(rows)
        order = np.random.default_rng(n).permutation(count)
        at = int32(*rows[twice][order]), int32(*cols[twice][order])
        mixed.append((bfloat16(n, count, SIDE, SIDE), *at, bfloat16(10 + n, side[1] * SIDE, wide)))
    return mixed


def _product(values, rows, cols, b):
    return block_product(values, rows, cols, b, ROWS)


def _last_of_each_row(values, rows, cols, b):
    last = jnp.array([not bool((rows[n + 1 :] == row).any()) for n, row in enumerate(rows)])
    return _product(jnp.where(last[:, None, None], values, 0), rows, cols, b)


def _whole_steps(values, rows, cols, b):
    whole = len(rows) // 8 * 8
    return block_product(values[:whole], rows[:whole], cols[:whole], b, ROWS)


EXERCISE = Exercise(
    id="12.9",
    title="From an empty cell: any order, any number",
    kind="write",
    defines="sparse_product",
    cases=_cases,
    reference=_product,
    budget=judges.Budget(cycles=MOST_CYCLES),
    slips=(
        judges.Slip(
            means="the blocks of the last step are left out, because there are fewer than eight of them",
            value=_whole_steps,
            next="round the number of steps up, and skip the blocks past the end of the list.",
        ),
        judges.Slip(
            means="each block overwrites what was there, so only the last block of each row is left",
            value=_last_of_each_row,
            next="add each matmul to the rows of its block, with acc_ref[...] += and not with =.",
        ),
    ),
    hints=(
        "If all rows of some columns of the result are in VMEM, in float32, the order of the list does not matter, "
        "and a row without blocks is zero. All rows of the same columns of b can be in VMEM, too.",
        "Several blocks per step hide the latency of a copy, but the last step may have too few. The list has no "
        "entries for the rest, and their blocks of values are garbage. Where can you add such a matmul so that nobody "
        "sees it?",
        "Give the accumulator one more row of blocks, row number ROWS. Past the end of the list, read its last entry "
        "with jnp.minimum, and add the matmul to the extra row. Store only the first ROWS rows of blocks.",
    ),
    points=4,
)
