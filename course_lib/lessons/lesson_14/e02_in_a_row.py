"""Block specs that follow a page table."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.unfit import Unfit, described
from course_lib.lessons.lesson_14 import pages as of


def _cases() -> list[tuple]:
    lengths = (40, 16, 5, 64), (1, 33), (100,), (15, 47, 16)
    return [
        of.pool(seed, each, (heads,), columns=columns, stale=0.5)
        for seed, (each, heads, columns) in enumerate(zip(lengths, (2, 1, 2, 3), (4, 4, 7, 5), strict=True))
    ]


def _by_number(pages, lengths, table):
    return of.in_a_row(pages, lengths, jnp.broadcast_to(jnp.arange(table.shape[1]) % len(pages), table.shape))


def _with_columns(column_of) -> Callable:
    """Return what ``in_a_row`` returns if column j of the table is replaced by ``column_of(j, lengths)``."""

    def value(pages, lengths, table):
        at = column_of(jnp.arange(table.shape[1]), lengths[:, None])
        return of.in_a_row(pages, lengths, jnp.take_along_axis(table, jnp.broadcast_to(at, table.shape), axis=1))

    return value


def _transposed(pages, lengths, table):
    """Return it where the map reads table_ref[j, b]. Raise ValueError if the table is not square."""
    if len(table) != table.shape[1]:
        raise ValueError("table_ref[j, b] is outside the table.")
    return of.in_a_row(pages, lengths, table.T)


def _places_exchanged(pages, lengths, table):
    """Return it where step (b, j) writes block j of sequence b into block b of sequence j."""
    right = of.in_a_row(pages, lengths, table)
    blocks = right.reshape(len(table), right.shape[1], table.shape[1], of.PAGE, -1)
    return jnp.swapaxes(blocks, 0, 2).reshape(right.shape)


def _with_specs(specs):
    """Return the function with the learner's two specs. Raise Unfit for what is not two."""
    found = specs(1, 256)
    if not isinstance(found, tuple | list) or len(found) != 2 or not all(isinstance(s, pl.BlockSpec) for s in found):
        raise Unfit(
            f"specs(1, 256) returns {described(found)}, but it should return two block specs.",
            "end with return pages_spec, o_spec.",
        )

    def in_a_row(pages, lengths, table):
        (sequences, columns), (_, heads, page, width) = table.shape, pages.shape
        found = specs(heads, width)
        return pl.pallas_call(
            _copy_kernel,
            out_shape=jax.ShapeDtypeStruct((sequences, heads, columns * page, width), pages.dtype),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=2, grid=(sequences, columns), in_specs=[found[0]], out_specs=found[1]
            ),
        )(lengths, table, pages)

    return in_a_row


def _copy_kernel(lengths_ref, table_ref, page_ref, o_ref):
    """Run the kernel that the exercise gives."""
    there = pl.program_id(1) * of.PAGE < lengths_ref[pl.program_id(0)]

    @pl.when(there)
    def copy():
        o_ref[...] = page_ref[...]

    @pl.when(jnp.logical_not(there))
    def clear():
        o_ref[...] = jnp.zeros_like(o_ref)


EXERCISE = Exercise(
    id="14.2",
    title="Configure only: pages in a row",
    kind="configure",
    defines="specs",
    build=_with_specs,
    cases=_cases,
    reference=of.in_a_row,
    budget=judges.Budget(hbm_bytes=of.bytes_in_a_row),
    slips=(
        judges.Slip(
            means="step (b, j) takes page j of the pool, and not the page that the table names at [b, j]",
            value=_by_number,
            next="read the number of the page in table_ref[b, j].",
        ),
        judges.Slip(
            means="every sequence gets the pages of sequence 0",
            value=of.of_row_0(of.in_a_row),
            next="read row b of the table, which belongs to sequence b.",
        ),
        judges.Slip(
            means="a last page that is not full is left out, and the page before it is copied again",
            value=_with_columns(lambda j, lengths: jnp.minimum(j, jnp.maximum(lengths // of.PAGE - 1, 0))),
            next="round up: the last page of sequence b is page pl.cdiv(lengths_ref[b], PAGE) - 1.",
        ),
        judges.Slip(
            means="step (b, j) takes page j + 1 of the sequence",
            value=_with_columns(lambda j, lengths: jnp.minimum(j + 1, of.page_count(lengths) - 1)),
            next="columns are counted from 0, so page j of the sequence is in table_ref[b, j].",
        ),
        judges.Slip(
            means="the table is read at [j, b], which is column b of row j",
            value=_transposed,
            next="sequence b has a row of the table, so read table_ref[b, j].",
        ),
        judges.Slip(
            means="b and j are exchanged in the map of the result",
            value=_places_exchanged,
            next="the result has axes (sequence, heads, token, element), so its map returns b, 0, j, 0.",
        ),
    ),
    hints=(
        "The table says which page comes at step (b, j). What may the map return at a step whose page does not exist, "
        "so that nothing is copied for it?",
        "A copy is skipped if the block is the same as in the step before. So keep j at the last page of the sequence, "
        "which has pl.cdiv(lengths_ref[b], PAGE) pages.",
        "The map of the pages returns table_ref[b, jnp.minimum(j, last)], 0, 0, 0 with last = pl.cdiv(lengths_ref[b], "
        "PAGE) - 1, and the map of the result returns b, 0, j, 0.",
    ),
    points=2,
)
