"""A whole kernel from an empty cell, which decodes with pages nearly as fast as it can read them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import compiler, judges
from course_lib.checks import cycle_limit
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_14 import pages as of

LIMITS = {(700, 90, 512, 30, 380, 336): 23_000, (512, 512, 512, 512): 18_450}  # lengths: the most cycles
HEADS, GROUP = 8, 4


def _bfloat16(seed: int, lengths: tuple[int, ...], heads: int) -> tuple:
    pages, *lists = of.pool(seed, lengths, (heads,), stale=np.nan if seed else 0.5)
    q = of.queries(seed, len(lengths), heads, GROUP, of.D)
    return q.astype(jnp.bfloat16), pages.astype(jnp.bfloat16), *lists


def _cases() -> list[tuple]:
    """Return ragged lengths, some above a block of 256 tokens, full pages, empty sequences, and scores far below 0.

    The first case has more sequences than anybody's ring has slots, so that a ring which copies too early is seen. Rows
    that belong to no token hold finite values in it, and NaN in the others.
    """
    many = (300, 16, 0, 25, *[1, 17, 32] * 5)
    cases = [
        _bfloat16(seed, lengths, heads)
        for seed, (lengths, heads) in enumerate(((many, 1), ((5, 272), 2), ((0, 64, 1), 1)))
    ]
    q, pages, *lists = cases[1]
    return [*cases, (abs(q) + 1, pages.at[..., : of.D].add(-8), *lists)]


def _decode(q, pages, lengths, table):
    """Return it with the exponentials rounded to bfloat16 before their matmul."""
    rows = of.rows_of(pages, table).astype(jnp.float32)
    in_bfloat16 = functools.partial(jax.lax.reduce_precision, exponent_bits=8, mantissa_bits=7)
    return of.attention(q.astype(jnp.float32), rows, lengths, rounded=in_bfloat16).astype(q.dtype)


def _full_pages(q, pages, lengths, table):
    return _decode(q, pages, lengths // of.PAGE * of.PAGE, table)


def _whole_pages(q, pages, lengths, table):
    return _decode(q, pages, of.page_count(lengths) * of.PAGE, table)


def _row_0(q, pages, lengths, table):
    return _decode(q, pages, lengths, jnp.broadcast_to(table[:1], table.shape))


def _shapes(lengths: tuple[int, ...]) -> tuple:
    """Return shapes of q and pages, and the values of lengths and table: pages one after another."""
    counts = [-(-length // of.PAGE) for length in lengths]
    table, begin = np.zeros((len(counts), max(counts)), np.int32), 0
    for row, count in zip(table, counts, strict=True):
        row[:count] = np.arange(begin, begin + count)
        begin += count
    q = jax.ShapeDtypeStruct((len(lengths), HEADS, GROUP, of.D), jnp.bfloat16)
    pages = jax.ShapeDtypeStruct((begin, HEADS, of.PAGE, 2 * of.D), jnp.bfloat16)
    return q, pages, np.array(lengths, np.int32), table


def _fast_enough(decode_all):
    """Demand the cycles of LIMITS, where a compiler is at hand."""
    for lengths, most in LIMITS.items():
        sizes = f"For sequences of {', '.join(map(str, lengths))} tokens"
        if said := cycle_limit.exceeded(decode_all, _shapes(lengths), most, sizes, _advice):
            return said
    return None


def _advice(report: compiler.Report) -> tuple[str, str]:
    waits, scalar = (report.time_split.get(name, 0) for name in ("DMA wait", "scalar"))
    return (
        f"The core waits for copies in {waits:,} cycles, and {scalar:,} are scalar code.",
        "keep enough copies in flight, also at the end of a sequence: as many bytes as arrive in the time of a copy."
        if waits > scalar
        else "start the copies of a whole block without a loop, and run no step that has no tokens.",
    )


EXERCISE = Exercise(
    id="14.9",
    title="From an empty cell: decode",
    kind="write",
    defines="decode_all",
    cases=_cases,
    reference=_decode,
    slips=(
        judges.Slip(
            means="every sequence reads row 0 of the table",
            value=_row_0,
            next="read row b of the table, which belongs to sequence b.",
        ),
        judges.Slip(
            means="a last page that is not full is left out",
            value=_full_pages,
            next="round up: a sequence has pl.cdiv(length, PAGE) pages.",
        ),
        judges.Slip(
            means="rows past the last token count",
            value=_whole_pages,
            next="row t of a block counts if t is less than the tokens left: replace the scores of the others with "
            "-inf, and their values with 0.",
        ),
    ),
    also=(_fast_enough,),
    also_at=lambda: [_bfloat16(9, (512, 30, 336), 2)],
    hints=(
        "The lesson's third kernel waits at the start of each sequence. What if there were one list of all blocks of "
        "all sequences, and one ring for it?",
        "Number all blocks consecutively: JAX makes two lists by cumsum and searchsorted, the sequence of block n and "
        "its place in that sequence. A grid of one step loops over the blocks, with q and the result in VMEM as a "
        "whole.",
        "Initialize m, l and acc where the place is 0, and store where no token is left after the block. Sixteen pages "
        "a block, four slots, m and l in all lanes, and copies of a whole block without a loop are fast enough.",
    ),
    points=4,
)
