"""The transpose of a block-sparse matrix times a dense one, by lists sorted by column."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_12.lists import SIDE, bfloat16, block_product, int32

COLUMNS = 3


def _cases() -> list[tuple]:
    """Return lists sorted by column, in which every column has one block or more, and a row may have none."""
    rows, cols = (2, 0, 1, 3, 0, 2, 3), (0, 1, 1, 1, 2, 2, 2)
    second = (0, 3, 1), (0, 1, 2)
    third = (4, 0, 1, 0), (0, 0, 1, 2)
    return [
        (bfloat16(n, len(at[0]), SIDE, SIDE), int32(*at[0]), int32(*at[1]), bfloat16(10 + n, down * SIDE, wide))
        for n, (at, down, wide) in enumerate((((rows, cols), 4, 256), (second, 4, 128), (third, 5, 256)))
    ]


def _product(values, rows, cols, b):
    return block_product(values, rows, cols, b, COLUMNS, turned=True)


def _as_stored(values, rows, cols, b):
    return block_product(jnp.swapaxes(values, 1, 2), rows, cols, b, COLUMNS, turned=True)


def _last_block_alone(values, rows, cols, b):
    last = jnp.append(cols[1:] != cols[:-1], True)
    return block_product(jnp.where(last[:, None, None], values, 0), rows, cols, b, COLUMNS, turned=True)


EXERCISE = Exercise(
    id="12.5",
    title="A transposed block-sparse product",
    kind="write",
    defines="transposed_kernel",
    judged="transposed_product",
    cases=_cases,
    reference=_product,
    slips=(
        judges.Slip(
            means="the blocks are multiplied as they are stored, not transposed",
            value=_as_stored,
            next="use product(a, b, 0, 0), which sums over the rows of both.",
        ),
        judges.Slip(
            means="only the last block of each column counts",
            value=_last_block_alone,
            next="reset the sum where the column changes, and in no other step.",
        ),
    ),
    hints=(
        "Transposing exchanges rows and columns, so the block row of the result is A's column, and that of b is A's "
        "row.",
        "The lesson's sparse_kernel looks at rows_ref, because its output block changes with the row. Which list says "
        "here where a sum begins and ends?",
        "b_map returns (rows_ref[t], 0), and o_map returns (cols_ref[t], 0). The kernel zeroes acc_ref if cols_ref[t] "
        "differs from the entry before, adds product(a_ref[...], b_ref[...], 0, 0), and stores if cols_ref[t] differs "
        "from the next entry.",
    ),
    points=3,
)
