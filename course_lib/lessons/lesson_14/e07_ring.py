"""A ring of pages with three bugs, to be repaired."""

import jax.numpy as jnp

from course_lib import compiler, judges
from course_lib.checks import cycle_limit
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_14 import pages as of

MOST_CYCLES = 25_000


def _cases() -> list[tuple]:
    """Return one, two and more pages, last pages that are full and not, and a sequence without tokens.

    Past the last token there are finite values in the first case, and NaN in the others.
    """
    lengths = (70, 16, 33), (100, 5), (0, 48), (17,)
    return [of.pool(seed, each, stale=jnp.nan if seed else 0.5) for seed, each in enumerate(lengths)]


def _summed(pages, lengths, table):
    return of.kept(of.rows_of(pages, table), lengths).sum(axis=1)


def _full_pages(pages, lengths, table):
    return _summed(pages, lengths // of.PAGE * of.PAGE, table)


def _whole_pages(pages, lengths, table):
    return _summed(pages, of.page_count(lengths) * of.PAGE, table)


def _two_late(pages, lengths, table):
    """Return it where page j + 2 arrives in the slot of page j before that is read."""
    count = of.page_count(lengths)
    j = jnp.arange(table.shape[1])
    at = jnp.where(j + 2 < count[:, None], j + 2, j)
    return _summed(pages, lengths, jnp.take_along_axis(table, at, axis=1))


def _large() -> tuple:
    return of.pool(9, (250, 256), stale=0.5)


def _overlaps(summed):
    """Demand at most MOST_CYCLES for two sequences of 16 pages, where a compiler is at hand."""
    return cycle_limit.exceeded(summed, _large(), MOST_CYCLES, "For 16 pages in each of two sequences", _advice)


def _advice(report: compiler.Report) -> tuple[str, str]:
    return (
        f"The core waits for copies in {report.time_split.get('DMA wait', 0):,} of its cycles.",
        "keep page j + 1 in flight while page j is added: start its copy before you wait for page j.",
    )


EXERCISE = Exercise(
    id="14.7",
    title="Repair: a ring of pages",
    kind="repair",
    defines="ring_kernel",
    judged="summed",
    cases=_cases,
    reference=_summed,
    slips=(
        judges.Slip(
            means="every sequence reads row 0 of the table",
            value=of.of_row_0(_summed),
            next="read row b of the table, which belongs to sequence b.",
        ),
        judges.Slip(
            means="a last page that is not full is left out",
            value=_full_pages,
            next="round up: a sequence has pl.cdiv(length, PAGE) pages.",
        ),
        judges.Slip(
            means="rows past the last token are added to the sum",
            value=_whole_pages,
            next="row t of page j counts if j * PAGE + t is less than length: replace the others with 0.",
        ),
        judges.Slip(
            means="the first row past the last token is added, too",
            value=lambda pages, lengths, table: _summed(pages, lengths + (lengths % of.PAGE > 0), table),
            next="token number length - 1 is the last one, so demand token < length, not <=.",
        ),
        judges.Slip(
            means="page j + 2 is in the slot when page j should be read from it",
            value=_two_late,
            next="request only one page ahead: with two slots, page j + 2 goes to the slot that still holds page j.",
        ),
    ),
    also=(_overlaps,),
    also_at=lambda: [_large()],
    hints=(
        "Answer three questions: whose row of the table is read, how many pages does a sequence have, and into which "
        "slot does add copy the page that it requests?",
        "Page j + 2 goes to the slot of page j, which is read a line later. With two slots, one page can be in flight "
        "while another is read.",
        "A sequence has pl.cdiv(length, PAGE) pages, and the table names them in table_ref[b, j]. Start page 0 before "
        "the loop, and in the loop start page j + 1 before you wait for page j.",
    ),
    points=3,
)
