"""A ring of pages: to be repaired."""

import jax.numpy as jnp

from course_lib import compiler, judges
from course_lib.checks import cycle_limit
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_14 import pages as of

MOST_CYCLES = 25_000


def _cases() -> list[tuple]:
    """Return one, two and more pages, last pages that are full and not, and a sequence without tokens.

    Behind the last token there are numbers in the first case, and NaN in the others.
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
        f"{report.time_split.get('DMA wait', 0):,} of them are waiting for copies.",
        "let page j + 1 be on its way while page j is added: start it before you wait for page j.",
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
            next="row b of the table belongs to sequence b.",
        ),
        judges.Slip(
            means="a last page that is not full is left out",
            value=_full_pages,
            next="round up: a sequence has pl.cdiv(length, PAGE) pages.",
        ),
        judges.Slip(
            means="rows behind the last token are added",
            value=_whole_pages,
            next="token j * PAGE + row counts if it is less than length: replace the others with 0.",
        ),
        judges.Slip(
            means="page j + 2 is there when page j is to be read",
            value=_two_late,
            next="ask for one page ahead: with two slots, page j + 2 goes where page j still is.",
        ),
    ),
    also=(_overlaps,),
    also_at=lambda: [_large()],
    hints=(
        "Three questions: whose row of the table is read, how many pages does a sequence have, and which slot does "
        "the page go to that is asked for in add?",
        "Page j + 2 has the slot of page j, which is read a line later. With two slots one page can be on its way "
        "while another is read.",
        "pl.cdiv(length, PAGE); table_ref[b, j]; start page 0 before the loop, and in it page j + 1 before the wait "
        "for page j.",
    ),
    points=3,
)
