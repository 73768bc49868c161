"""Pages that are fetched by hand, all of a sequence at once."""

from course_lib import compiler, judges
from course_lib.checks import cycle_limit
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_14 import pages as of

MOST_CYCLES = 9_000


def _cases() -> list[tuple]:
    lengths = (40, 16, 5), (1, 64), (33,), (47, 0, 16)
    return [
        of.pool(seed, each, columns=columns, stale=0.5)
        for seed, (each, columns) in enumerate(zip(lengths, (4, 4, 7, 3), strict=True))
    ]


def _large() -> tuple:
    return of.pool(9, (250, 256), stale=0.5)


def _full_pages(pages, lengths, table):
    return of.kept(of.rows_of(pages, table), lengths // of.PAGE * of.PAGE)


def _overlaps(fetched):
    """Demand at most MOST_CYCLES for two sequences of 16 pages, where a compiler is at hand."""
    return cycle_limit.exceeded(fetched, _large(), MOST_CYCLES, "For 16 pages in each of two sequences", _advice)


def _advice(report: compiler.Report) -> tuple[str, str]:
    return (
        f"The core waits for copies in {report.time_split.get('DMA wait', 0):,} of its cycles.",
        "start the copies of all pages in one loop, and wait for them in a second one.",
    )


EXERCISE = Exercise(
    id="14.6",
    title="All pages at once",
    kind="write",
    defines="fetch_kernel",
    judged="fetched",
    cases=_cases,
    reference=of.in_a_row,
    budget=judges.Budget(hbm_bytes=of.bytes_in_a_row),
    slips=(
        judges.Slip(
            means="every sequence gets the pages of sequence 0",
            value=of.of_row_0(of.in_a_row),
            next="read row b = pl.program_id(0) of the table, which belongs to sequence b.",
        ),
        judges.Slip(
            means="a last page that is not full is left out",
            value=_full_pages,
            next="round up: a sequence has pl.cdiv(lengths_ref[b], PAGE) pages.",
        ),
        judges.Slip(
            means="rows past the last token of a page are 0, but the last page is to be copied whole",
            value=lambda pages, lengths, table: of.kept(of.rows_of(pages, table), lengths),
            next="write zeros only past the last page, from row pl.cdiv(lengths_ref[b], PAGE) * PAGE on.",
        ),
    ),
    also=(_overlaps,),
    also_at=lambda: [_large()],
    hints=(
        "One loop starts the copies, and a second one waits for them. What must the rows past the last page hold, and "
        "when do you write them?",
        "Write the zeros before you start the copies, because a copy in flight must not be overwritten. A sequence "
        "has pl.cdiv(lengths_ref[b], PAGE) pages.",
        "Let copy(j) return pltpu.make_async_copy(pages_ref.at[table_ref[b, j]], o_ref.at[pl.ds(j * PAGE, PAGE)], "
        "sem). All copies signal one semaphore, so wait as often as you started a copy.",
    ),
    points=3,
)
