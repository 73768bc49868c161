"""A segment sum in one kernel on SparseCores, from an empty cell."""

import jax

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_17 import subcores

COLUMNS, SEGMENTS = 256, 512


def _cases() -> list[tuple]:
    return [
        (subcores.rows(seed, size, COLUMNS), subcores.indices(seed, SEGMENTS, size))
        for seed, size in enumerate((2048, 4096))
    ]


def _most(rows, segments) -> int:
    """Return the bytes of all rows once, of the segments once for each of two SparseCores, and of the result."""
    return rows.nbytes + 2 * segments.nbytes + 4 * SEGMENTS * COLUMNS


EXERCISE = Exercise(
    id="17.9",
    title="A segment sum",
    kind="write",
    defines="segment_sum",
    cases=_cases,
    reference=lambda rows, segments: jax.ops.segment_sum(rows, segments, SEGMENTS),
    engine="sparse_core",
    chips=("v6e", "tpu7x"),
    also=(subcores.all_work(lambda: _cases()[0], "v6e"),),
    budget=judges.Budget(hbm_bytes=_most),
    hints=(
        "The subcores of one SparseCore can add into memory that they share, pltpu.VMEM_SHARED. Those of the other one "
        "cannot reach it. How do you divide the work so that no sum has to be added up afterwards?",
        "Let each SparseCore add up 128 of the 256 columns, for all rows. Its subcores clear a stripe of the sum each, "
        "meet at plsc.subcore_barrier(), add their rows, meet again, and write a stripe each.",
        "For 128 rows at a time: copy their segments, copy rows_hbm.at[here, columns], and pltpu.sync_copy(rows_ref, "
        "sums_shared.at[segments_ref], add=True). To clear, store zeros into rows_ref, as many lanes at a time as "
        "plsc.get_sparse_core_info() says, and copy it to your stripe.",
    ),
    points=5,
)
