"""Golf: sequences that begin with the same pages, in as few bytes as possible."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import BYTES, Golf
from course_lib.lessons.lesson_14 import pages as of


def _cases() -> list[tuple]:
    """Return prompts of 6, 1 and 3 pages, and scores far below 0; the first case is the one that is counted.

    Rows that belong to no token hold finite values in the first and the last case, and NaN in the others.
    """
    cases = []
    for seed, (common, lengths) in enumerate(((6, (40, 16, 25, 60)), (1, (5, 33)), (3, (1, 16, 48)), (2, (20, 3)))):
        stale = jnp.nan if seed in (1, 2) else 0.5
        pages, every, table = of.pool(seed, (16 * common, *lengths), beyond=0, spare=0, stale=stale)
        q = of.queries(seed, len(lengths), 8, of.D)
        if seed == 3:
            pages, q = pages.at[..., : of.D].add(-8), abs(q) + 1
        most = max(-(-n // of.PAGE) for n in lengths)
        cases.append((q, pages, table[0, :common], every[1:], table[1:, :most]))
    return cases


def _shared(q, pages, prefix, lengths, table, attention=of.attention):
    own = of.kept(of.rows_of(pages, table), lengths)
    common = jnp.broadcast_to(of.rows_of(pages, prefix[None]), (len(q), 16 * len(prefix), 2 * of.D))
    return attention(q, jnp.concatenate([common, own], axis=1), 16 * len(prefix) + lengths)


def _prompt_alone(q, pages, prefix, lengths, table):
    return _shared(q, pages, prefix, jnp.zeros_like(lengths), table)


def _own_alone(q, pages, prefix, lengths, table):
    return of.attention(q, of.rows_of(pages, table), lengths)


def _prompt_by_number(q, pages, prefix, lengths, table):
    return _shared(q, pages, jnp.arange(len(prefix)), lengths, table)


def _of_sequence_0(q, pages, prefix, lengths, table):
    """Return it where sequence 0 alone attends to the prompt."""
    own, first = _own_alone(q, pages, prefix, lengths, table), _shared(q, pages, prefix, lengths, table)
    return jnp.where(jnp.arange(len(q))[:, None, None] == 0, first, own)


def _whole_pages(q, pages, prefix, lengths, table):
    return _shared(q, pages, prefix, of.page_count(lengths) * of.PAGE, table)


def _own_of_0(q, pages, prefix, lengths, table):
    return _shared(q, pages, prefix, lengths, jnp.broadcast_to(table[:1], table.shape))


EXERCISE = Exercise(
    id="14.10",
    title="Golf: one prompt for all",
    kind="golf",
    defines="shared",
    cases=_cases,
    reference=_shared,
    slips=(
        judges.Slip(
            means="only the pages of the prompt count",
            value=_prompt_alone,
            next="go on with the pages of each sequence, and keep m, l and acc of its queries. The prompt's tokens are "
            "not among lengths.",
        ),
        judges.Slip(
            means="only the sequences' own pages count",
            value=_own_alone,
            next="let the queries of all sequences attend to the pages of prefix first.",
        ),
        judges.Slip(
            means="only sequence 0 attends to the prompt",
            value=_of_sequence_0,
            next="multiply the queries of all sequences by each page of the prompt.",
        ),
        judges.Slip(
            means="page t of the pool is taken for page t of the prompt",
            value=_prompt_by_number,
            next="read the number of the page in prefix_ref[t].",
        ),
        judges.Slip(
            means="every sequence goes on with the pages of sequence 0",
            value=_own_of_0,
            next="read row b of the table, which belongs to sequence b.",
        ),
        judges.Slip(
            means="rows past the last token count",
            value=_whole_pages,
            next="replace the scores of these rows with -inf, and their values with 0.",
        ),
        judges.Slip(
            means="m starts at 0, or no maximum is subtracted; these scores are so far below 0 that every exp is 0, "
            "and 0 / 0 is NaN",
            value=lambda *args: _shared(*args, attention=of.without_maximum),
            next="let m start at -inf, and subtract the maximum of the scores so far.",
        ),
    ),
    golf=Golf(unit=BYTES, par=300_000),
    hints=(
        "The queries of all sequences attend to a page of the prompt. How many rows of queries can one step multiply "
        "by it?",
        "Let the grid go through the pages of the prompt first, with all queries, and then through the pages of each "
        "sequence, with its own queries. Keep the statistics of all queries in scratch.",
        "Use one axis of S + B * M steps. The index map names prefix[t] for t < S and a page of the table after that, "
        "and stays at the last page of a sequence. Rows b * 8 to b * 8 + 7 of the scratch belong to sequence b.",
    ),
    points=4,
)
