"""Golf: sequences that begin with the same pages, in as few bytes as possible."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import BYTES, Golf
from course_lib.lessons.lesson_14 import pages as of


def _cases() -> list[tuple]:
    """Return prompts of 6, 1 and 3 pages; the first case is the one that is counted."""
    cases = []
    for seed, (common, lengths) in enumerate(((6, (40, 16, 25, 60)), (1, (5, 33)), (3, (1, 16, 48)))):
        pages, every, table = of.pool(seed, (16 * common, *lengths), beyond=0, spare=0)
        q = of.queries(seed, len(lengths), 8, of.D)
        most = max(-(-n // of.PAGE) for n in lengths)
        cases.append((q, pages, table[0, :common], every[1:], table[1:, :most]))
    return cases


def _shared(q, pages, prefix, lengths, table):
    own = of.kept(of.rows_of(pages, table), lengths)
    common = jnp.broadcast_to(of.rows_of(pages, prefix[None]), (len(q), 16 * len(prefix), 2 * of.D))
    return of.attention(q, jnp.concatenate([common, own], axis=1), 16 * len(prefix) + lengths)


EXERCISE = Exercise(
    id="14.10",
    title="Golf: one prompt for all",
    kind="golf",
    defines="shared",
    cases=_cases,
    reference=_shared,
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
