"""Golf: sums of eight rows of a table, in the fewest bytes of HBM."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import BYTES, Golf
from course_lib.lessons.lesson_17 import subcores

ROWS, COLUMNS, BAG, BAGS = 512, 256, 8, 256


def _cases() -> list[tuple]:
    return [(subcores.rows(seed, ROWS, COLUMNS), subcores.indices(seed, ROWS, BAG * BAGS)) for seed in range(2)]


EXERCISE = Exercise(
    id="17.10",
    title="Golf: bags of rows",
    kind="golf",
    defines="bags",
    cases=_cases,
    reference=lambda table, indices: jnp.take(table, indices, axis=0).reshape(BAG, BAGS, COLUMNS).sum(axis=0),
    engine="sparse_core",
    chips=("v6e",),
    also=(subcores.all_work(lambda: _cases()[0], "v6e"),),
    golf=Golf(
        unit=BYTES, par=1_400_000,
        next="each row of the table is in four bags on average. Where could all subcores of a SparseCore read it from?",
    ),
    hints=(
        "2,048 rows are fetched, but the table has only 512. How often is a row of it fetched, on average?",
        "Bring the whole table into pltpu.VMEM_SHARED, each subcore a part of it, and fetch the rows from there, after "
        "a barrier.",
        "Then both SparseCores read all of the table. Let each of them have 128 columns of it, for all bags: its 16 "
        "subcores sum up 16 bags each, and write 128 columns of the result.",
    ),
    points=4,
)  # fmt: skip
