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
    """Return indices that repeat, with the first and last row; more than a ring of buffers holds, fewer, and one."""
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
            f"For {MANY} rows of 256 numbers it needs {needs // 1024:,} KiB of VMEM; it may use "
            f"{MOST_VMEM // 1024} KiB.",
            "let some buffers go round: row j in buffer j mod n.",
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
        "First with one buffer each way: in a loop over j copy row ids_ref[j] in, double it, copy it out to row j, "
        "each copy waited for. The judges should be content; the check asks for more.",
        "Buffers of shape (n, 1, C), semaphores (n,). fetch(j) and send(j) describe the copies of row j in buffer j "
        "mod n. Prologue: fetch 0 to n - 2, if there are so many. A turn: fetch(j + n - 1), wait for j, work, send.",
        "Before turn j writes its out buffer, send(j - n) must be over: wait for it under pl.when(j >= n). Behind the "
        "loop the last n sends are left, or all, if there are fewer.",
    ),
    points=3,
)
