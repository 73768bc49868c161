"""Block-sparse products: blocks of the left matrix are a list, and which row and column each has is looked up."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import normal
from zoo.bug import Bug

BLOCK = 128
HIGHEST = lax.Precision.HIGHEST


def at_a_new_row(t, rows):
    return (t == 0) | (rows[jnp.maximum(t - 1, 0)] != rows[t])


def at_the_first(t, rows):
    return t == 0


def before_a_new_row(t, rows):
    last = rows.shape[0] - 1
    return (t == last) | (rows[jnp.minimum(t + 1, last)] != rows[t])


def sparse_dense(
    rows,
    cols,
    values,
    dense,
    of_rows=3,
    starts=at_a_new_row,
    ends=before_a_new_row,
    panel=lambda t, rows, cols: cols[t],
):
    """The product of a matrix of blocks ``values`` at (rows, cols), sorted by row, with a dense one."""

    def sparse_kernel(rows_ref, cols_ref, a_ref, b_ref, o_ref, acc_ref):
        t = pl.program_id(0)

        @pl.when(starts(t, rows_ref))
        def _start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(a_ref[0], b_ref[...], precision=HIGHEST)

        @pl.when(ends(t, rows_ref))
        def _store():
            o_ref[...] = acc_ref[...]

    n = dense.shape[1]
    return pl.pallas_call(
        sparse_kernel,
        out_shape=jax.ShapeDtypeStruct((of_rows * BLOCK, n), dense.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(rows.shape[0],),
            in_specs=[
                pl.BlockSpec((1, BLOCK, BLOCK), lambda t, rows, cols: (t, 0, 0)),
                pl.BlockSpec((BLOCK, n), lambda t, rows, cols: (panel(t, rows, cols), 0)),
            ],
            out_specs=pl.BlockSpec((BLOCK, n), lambda t, rows, cols: (rows[t], 0)),
            scratch_shapes=[pltpu.VMEM((BLOCK, n), jnp.float32)],
        ),
    )(rows, cols, values, dense)


def stored_one_step_late(t, rows):
    """At the first block of the next row, whose output block is that row's."""
    return (t > 0) & (rows[jnp.maximum(t - 1, 0)] != rows[t]) | (t == rows.shape[0] - 1)


def in_jax(rows, cols, values, dense, of_rows=3):
    products = jnp.einsum("zik,zkn->zin", values, dense.reshape(-1, BLOCK, dense.shape[1])[cols], precision=HIGHEST)
    return jnp.zeros((of_rows, *products.shape[1:])).at[rows].add(products).reshape(-1, dense.shape[1])


def ids(*numbers):
    return np.array(numbers, np.int32)


SORTED = (ids(0, 0, 1, 2, 2), ids(0, 2, 1, 0, 2), normal(5, BLOCK, BLOCK, seed=1), normal(3 * BLOCK, 128, seed=2))
UNSORTED = (ids(0, 1, 2, 0), ids(0, 2, 1, 2), *(a[:4] if a.shape[0] == 5 else a for a in SORTED[2:]))
ROW_1_EMPTY = (ids(0, 0, 2, 2), ids(0, 2, 0, 1), *UNSORTED[2:])

BUGS = tuple(
    Bug(kind="block sparse", name=name, fn=fn, reference=in_jax, args=args, caught_by=by, says=says)
    for name, fn, args, by, says in (
        (
            "zero at the first block only",
            partial(sparse_dense, starts=at_the_first),
            SORTED,
            "numbers",
            r"acc_ref is initialized only once for the whole grid, at step \(0,\)",
        ),
        (
            "stored one block late",
            partial(sparse_dense, ends=stored_one_step_late),
            SORTED,
            "numbers",
            r"None of the steps of this block writes to o_ref, because the condition around the write is false there",
        ),
        (
            "rows for columns",
            partial(sparse_dense, panel=lambda t, rows, cols: rows[t]),
            SORTED,
            "numbers",
            r"needs block \(2, 0\) of b_ref, but the 2 steps .* they read \(0, 0\)\.",
        ),
        (
            "the number of the block for its column",
            partial(sparse_dense, panel=lambda t, rows, cols: jnp.minimum(t, 2)),
            SORTED,
            "numbers",
            r"needs block \(2, 0\) of b_ref, but .* they read \(0, 0\) and \(1, 0\)",
        ),
        (
            "a row without blocks",
            sparse_dense,
            ROW_1_EMPTY,
            "numbers",
            r"looks blocks up in rows_ref or cols_ref, and no entry points to this one",
        ),
        (
            "blocks that are not sorted",
            sparse_dense,
            UNSORTED,
            "numbers",
            r"are not consecutive: after step \(0,\) .* at step \(3,\) it comes back(?s:.*)sort the list",
        ),
    )
)
