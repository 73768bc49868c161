"""Index maps that follow a page table."""

import jax.numpy as jnp

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_14 import pages as of


def _cases() -> list[tuple]:
    lengths = (40, 16, 5, 64), (1, 33), (100,), (15, 47, 16)
    return [
        of.pool(seed, each, (heads,), columns=columns, stale=0.5)
        for seed, (each, heads, columns) in enumerate(zip(lengths, (2, 1, 2, 3), (4, 4, 7, 5), strict=True))
    ]


def _in_a_row(pages, lengths, table):
    """Return the pages that there are, whole, and zeros behind them."""
    whole = -(-lengths // of.PAGE) * of.PAGE
    return of.kept(of.rows_of(pages, table), whole)


def _bytes(pages, lengths, table) -> int:
    """Return the bytes of the pages that sequences have, of the result, and of the lists."""
    owned = int((-(-lengths // of.PAGE)).sum())
    return cost.stored_bytes(pages[:owned], _in_a_row(pages, lengths, table), lengths, table)


def _by_number(pages, lengths, table):
    return _in_a_row(pages, lengths, jnp.broadcast_to(jnp.arange(table.shape[1]) % len(pages), table.shape))


def _of_first(pages, lengths, table):
    return _in_a_row(pages, lengths, jnp.broadcast_to(table[:1], table.shape))


EXERCISE = Exercise(
    id="14.2",
    title="Configure only: pages in a row",
    kind="configure",
    defines="page_map",
    judged="in_a_row",
    cases=_cases,
    reference=_in_a_row,
    budget=judges.Budget(hbm_bytes=_bytes),
    slips=(
        judges.Slip(
            means="page j of the pool is taken, and not the page whose number stands at [b, j] of the table",
            value=_by_number,
            next="read the number: table_ref[b, j].",
        ),
        judges.Slip(
            means="every sequence gets the pages of sequence 0",
            value=_of_first,
            next="row b of the table belongs to sequence b.",
        ),
    ),
    hints=(
        "The table says which page comes at step (b, j). What may the map return at a step whose page does not exist, "
        "so that nothing is copied for it?",
        "A copy is skipped when the block is that of the step before. Keep j at the last page of the sequence, which "
        "has pl.cdiv(lengths_ref[b], PAGE) pages.",
        "table_ref[b, jnp.minimum(j, last)], 0, 0, 0 for the pages, with last = pl.cdiv(lengths_ref[b], PAGE) - 1; "
        "b, 0, j, 0 for the result.",
    ),
    points=2,
)
