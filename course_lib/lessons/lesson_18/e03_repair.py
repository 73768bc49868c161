"""A kernel that is right at the sizes of its author's test, to be repaired."""

import jax.numpy as jnp
from jax import lax

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_18 import values

SIZES = ((32, 256), (20, 256), (16, 128), (7, 384))


def reference(x):
    """Return y[t] = 0.9 * y[t - 1] + x[t] down the rows."""

    def step(above, row):
        y = 0.9 * above + row
        return y, y

    return lax.scan(step, jnp.zeros_like(x[0]), x)[1]


def cases() -> list[tuple]:
    """Return random rows at each size."""
    return [(values.uniform(seed, *size),) for seed, size in enumerate(SIZES)]


def _shared(x):
    """Return y if all blocks of columns share one carry, and a row of blocks is computed from left to right."""
    parts = jnp.split(jnp.pad(x, ((0, -len(x) % 16), (0, 0))), x.shape[1] // 128, axis=1)
    done, last = [], None
    for start in range(0, len(parts[0]), 16):
        row = []
        for part in parts:
            block = part[start : start + 16]
            row.append(reference(block if start == 0 else block.at[0].add(0.9 * last)))
            last = row[-1][-1]
        done.append(jnp.concatenate(row, axis=1))
    return jnp.concatenate(done)[: len(x)]


EXERCISE = Exercise(
    id="18.3",
    title="Repair: right in its own test",
    kind="repair",
    defines="decayed",
    cases=cases,
    reference=reference,
    slips=(
        judges.Slip(
            means="a block begins with the last row of the block to its left, because all blocks share one carry",
            value=_shared,
            next="let all blocks of some columns come one after another, before those of the next columns.",
        ),
    ),
    hints=(
        "Which values of x did the author try? What is different with a second block of columns, and with 20 rows?",
        "A carry in scratch belongs to one block of columns. Which axis of the grid must be the last, so that all rows "
        "of these columns come one after another?",
        "The grid is (blocks of columns, blocks of rows), with pl.cdiv in both. Clear the scratch where "
        "pl.program_id(1) is 0, and let the index maps be lambda j, i: (i, j).",
    ),
    points=2,
)
