"""Rows by index on SparseCores, each byte once."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_17 import subcores

COLUMNS = 128


def _cases() -> list[tuple]:
    return [
        (subcores.rows(seed, count, COLUMNS), subcores.indices(seed, count, size))
        for seed, (count, size) in enumerate(((512, 1024), (300, 2048), (5000, 4096)))
    ]


EXERCISE = Exercise(
    id="17.2",
    title="Rows by index",
    kind="write",
    defines="lookup",
    cases=_cases,
    reference=lambda table, indices: jnp.take(table, indices, axis=0),
    engine="sparse_core",
    chips=("v6e", "v5p", "tpu7x"),
    also=(subcores.all_work(lambda: _cases()[0], "v5p"),),
    budget=judges.Budget(hbm_bytes=lambda table, indices: indices.size * (4 + 2 * 4 * COLUMNS)),
    hints=(
        "Number the subcores of the chip, over both axes of the mesh. Which of the n indices does subcore s take?",
        "Each subcore needs two scratch buffers in pltpu.VMEM: for its share of the indices, and for as many rows. "
        "Three copies, one after the other, are enough.",
        "With s = core * num_subcores + subcore and mine = pl.ds(s * share, share): pltpu.sync_copy of "
        "indices_hbm.at[mine] to indices_ref, then of table_hbm.at[indices_ref] to rows_ref, then of rows_ref to "
        "o_hbm.at[mine].",
    ),
    points=3,
)
