"""A whole kernel from an empty cell: a gather of rows by run-time indices, through a ring of buffers."""

import jax
import jax.numpy as jnp

from course_lib import cost, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import at_random
from course_lib.lessons.lesson_05 import under_way

AT_LEAST = 4  # row copies in flight
MOST_VMEM = 64 * 2**10
MANY = 256  # rows: 256 KiB


def _rows() -> list[tuple]:
    """Return arrays and indices: repeated ones, the first and last row, and more than a ring holds, fewer, and one."""
    cases = []
    for number, (rows, columns, count) in enumerate(((64, 256, 13), (40, 128, 3), (16, 384, 1), (200, 128, 40))):
        x = jnp.arange(rows * columns, dtype=jnp.float32).reshape(rows, columns)
        ids = jax.random.randint(jax.random.key(number), (count,), 0, rows, jnp.int32)
        cases.append((x, ids.at[0].set(rows - 1).at[count // 2].set(0)))
    return cases


def _many() -> tuple:
    return at_random(jax.ShapeDtypeStruct((512, 256), jnp.float32), 0), 3 * jnp.arange(MANY, dtype=jnp.int32) % 512


def _ring(gathered):
    return next(
        (said for x, ids in _rows() if (said := under_way.too_few(gathered, x, ids, wanted=AT_LEAST))),
        None,
    )


def _whatever_the_length(gathered):
    """Demand that VMEM does not grow with the number of rows."""
    needs = cost.vmem_bytes(grid.walk(gathered, *_many()))
    if needs > MOST_VMEM:
        return (
            f"For {MANY} rows of 256 elements it needs {needs // 1024:,} KiB of VMEM, but it may use only "
            f"{MOST_VMEM // 1024} KiB.",
            "reuse a few buffers in a ring, with row j in buffer j mod n.",
        )
    return None


EXERCISE = Exercise(
    id="05.9",
    title="From an empty cell: rows by their numbers",
    kind="write",
    defines="gathered",
    cases=_rows,
    reference=lambda x, ids: 2 * x[ids],
    budget=judges.Budget(vmem_bytes=MOST_VMEM),
    also=(_ring, _whatever_the_length),
    also_at=lambda: [_many()],
    hints=(
        "Begin with one buffer in each direction. In a loop over j, copy row ids_ref[j] in, double it, copy it out to "
        "row j, and wait for each copy. The judges should accept that; the check asks for more.",
        "Use buffers of shape (n, 1, C) and n semaphores, where fetch(j) and send(j) copy row j by buffer j mod n. The "
        "prologue fetches rows 0 to n - 2, if there are so many. Each iteration starts fetch(j + n - 1), waits for "
        "row j, works on it, and sends it.",
        "Before iteration j writes its output buffer, send(j - n) must be over, so wait for it under pl.when(j >= n). "
        "After the loop, wait for the last n sends, or for all of them if there are fewer.",
    ),
    points=3,
)
