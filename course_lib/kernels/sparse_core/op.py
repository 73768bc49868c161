"""The ops for callers: arguments checked, differentiable, and plain JAX where a chip has no SparseCores."""

import functools
import numbers
from collections.abc import Callable

import jax.numpy as jnp

from course_lib import compat
from course_lib.arrays import Array, Int32, Num
from course_lib.kernels.common import arguments, chip, legal
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.dispatch import sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.sparse_core.kernel import (
    gather_rows_reference,
    histogram_reference,
    launch_gather,
    launch_histogram,
    launch_scatter,
    scatter_add_reference,
)

MOST_BINS = 32_768  # their counts take half of a subcore's VMEM on a v6e
_WORDS = "float32", "int32"  # SparseCores copy rows by an index only if their elements have 32 bits
_GATHER, _SCATTER, _HISTOGRAM = "N D, m -> m D", "m D, m -> R D +m", "m -> R +m"


def gather_rows(table: Num[Array, "N D"], indices: Int32[Array, "..."]) -> Num[Array, "... D"]:
    """Return ``table[indices]``, as ``jnp.take(table, indices, axis=0, mode="clip")`` does.

    The table is f32 or int32, and D a multiple of 128; the indices are int32, in any shape. Differentiable: the
    gradient of the table is ``scatter_add``. Runs the kernel on the SparseCores of a v5p, v6e or tpu7x, and plain JAX
    elsewhere. Raises ValueError for other dtypes, another width, and a table without rows.
    """
    (table,) = arguments.arrays("gather_rows", _WORDS, table=table)
    (indices,) = arguments.arrays("gather_rows", ("int32",), indices=indices)
    _check_rows("gather_rows", "table", table)
    if not table.shape[0] and indices.size:
        raise ValueError(f"gather_rows: table has shape {table.shape}, and no row that an index could name.")
    operands, _ = sharding.ready("gather_rows", _GATHER, (table, indices.reshape(-1)))
    return _gathered(*operands).reshape(*indices.shape, table.shape[1])


def scatter_add(rows: Num[Array, "... D"], indices: Int32[Array, "..."], count: int) -> Num[Array, "count D"]:
    """Return (count, D): row r is the sum of all rows whose index is r, as ``jax.ops.segment_sum`` computes it.

    Rows with an index outside [0, count) are left out. The rows are f32 or int32, and D a multiple of 128; there is one
    index, int32, for each. The order of the sum is not fixed, so float32 may round differently from run to run.
    Differentiable: the gradient of the rows is ``gather_rows``. Otherwise like ``gather_rows``. Raises ValueError, too,
    if there is not one index for each row, or count is not a whole number of 1 or more.
    """
    (rows,) = arguments.arrays("scatter_add", _WORDS, rows=rows)
    (indices,) = arguments.arrays("scatter_add", ("int32",), indices=indices)
    _check_count("scatter_add", "count", count, most=None)
    if rows.shape[:-1] != indices.shape or not rows.ndim:
        raise ValueError(
            f"scatter_add: rows has shape {rows.shape} and indices {indices.shape}; there must be one index for each "
            f"row. Try indices of shape {rows.shape[:-1]}."
        )
    rows = rows.reshape(-1, rows.shape[-1])
    _check_rows("scatter_add", "rows", rows)
    operands, _ = sharding.ready("scatter_add", _SCATTER, (rows, indices.reshape(-1)))
    return _scattered(*operands, int(count))


def histogram(values: Int32[Array, "..."], bins: int) -> Int32[Array, " bins"]:
    """Return how many of the values are 0, 1, ... bins - 1. Values outside [0, bins) are left out.

    The values are int32, in any shape; at most 32,768 bins, whose counts fit into a subcore's memory. Not
    differentiable. Otherwise like ``gather_rows``.
    """
    (values,) = arguments.arrays("histogram", ("int32",), values=values)
    _check_count("histogram", "bins", bins, most=MOST_BINS)
    (values,), _ = sharding.ready("histogram", _HISTOGRAM, (values.reshape(-1),))
    return _op("histogram", _HISTOGRAM, launch_histogram, histogram_reference, bins=int(bins))(values)


def _check_rows(op: str, name: str, rows: Array) -> None:
    if rows.ndim != 2:
        raise ValueError(f"{op}: {name} has shape {rows.shape}; it must have two axes, rows and columns.")
    if (width := rows.shape[1]) % LANES or not width:
        wanted = max(LANES, -(-width // LANES) * LANES)
        raise ValueError(
            f"{op}: {name} has {width} columns; it must be a multiple of {LANES}, because SparseCores copy rows in "
            f"pieces of {LANES} columns. Pad it once, where it is made: "
            f"jnp.pad({name}, ((0, 0), (0, {wanted - width})))."
        )


def _check_count(op: str, name: str, count: int, most: int | None) -> None:
    is_whole = isinstance(count, numbers.Integral) and not isinstance(count, bool)
    if not is_whole or count < 1 or (most and count > most):
        may_be = f"a whole number from 1 to {most:,}" if most else "a whole number, 1 or more"
        rest = f" Try histogram(values - {most}, ...) for the bins behind the first {most:,}." if most else ""
        raise ValueError(f"{op}: {name} is {legal.shown(count)}; it must be {may_be}.{rest}")


def _op(name: str, rule: str, launch: Callable, plain: Callable, **how: int) -> Op:
    """Return the op. JAX cannot map kernels on SparseCores, so under jax.vmap it runs once for each index."""
    sizes = tuple(("R", size) for size in how.values())
    return Op(
        name=name,
        rule=rule,
        tpu=fixed(_on_tpu, launch=launch, plain=plain, **how),
        plain=fixed(plain, **how),
        sizes=sizes,
        known="m",
        one_at_a_time=True,
        lowered_in=compat.push_streams_unwarned,
    )


def _on_tpu(*operands: Array, launch: Callable, plain: Callable, **how: int) -> Array:
    return (launch if chip.sparse_cores() else plain)(*operands, **how)


@functools.partial(differentiable, settings=0)
def _gathered(table, indices):
    return _op("gather_rows", _GATHER, launch_gather, gather_rows_reference)(table, indices)


def _gather_backward(kept, g):
    indices, table = kept
    count = table.shape[0]
    return _scattered(g, jnp.clip(indices, 0, count - 1), count), None


@functools.partial(differentiable, settings=1)
def _scattered(rows, indices, count):
    return _op("scatter_add", _SCATTER, launch_scatter, scatter_add_reference, count=count)(rows, indices)


def _scatter_backward(count, kept, g):
    (indices,) = kept
    is_inside = (indices >= 0) & (indices < count)
    return jnp.where(is_inside[:, None], _gathered(g, indices), 0), None


_gathered.defvjp(lambda table, indices: (_gathered(table, indices), (indices, table)), _gather_backward)
_scattered.defvjp(lambda rows, indices, count: (_scattered(rows, indices, count), (indices,)), _scatter_backward)
