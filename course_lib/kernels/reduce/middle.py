"""The reduction along an axis N that is neither the last nor one of a matrix, where it lies.

The array is seen as (A, N, C) or (A, N, R, C), as in ``common/axes.py``. Along N, blocks are reduced register by
register. No lanes are mixed, and the sublanes of (A, N, C) only once, at the last step.
"""

import functools
from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels.common import axes
from course_lib.kernels.common.along_axis import accumulator, whole
from course_lib.kernels.common.compiler_params import compiler_params
from course_lib.kernels.common.legal import LANES, SUBLANES
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.symbolic import planned


def _kernel(
    x_ref: Num[Ref, "*block"],  # (ba, bk, bn) or (ba, bk, br, bn)
    o_ref: Num[Ref, "*result"],  # the same without bk: stays put while n runs
    acc_ref: Num[Ref, "*partial"],  # scratch: (ba, 8, bn), or as the result
    *,
    along: Callable,
    both: Callable,
    start,
    size: int,
) -> None:
    axis = x_ref.ndim - 1  # of the grid
    n, bk = pl.program_id(axis), x_ref.shape[1]

    @pl.when(n == 0)
    def _start():
        acc_ref[...] = jnp.full_like(acc_ref, start)

    x = x_ref[...].astype(acc_ref.dtype)
    if size % bk:  # the last block reaches past the array into garbage
        at = n * bk + lax.broadcasted_iota(jnp.int32, x.shape, 1)
        x = jnp.where(at < size, x, start)
    if x.ndim == 3:
        x = x.reshape(x.shape[0], bk // SUBLANES, SUBLANES, x.shape[2])
    acc_ref[...] = both(acc_ref[...], along(x, axis=1))

    @pl.when(n == pl.num_programs(axis) - 1)
    def _finish():
        result = along(acc_ref[...], axis=1) if x_ref.ndim == 3 else acc_ref[...]
        o_ref[...] = result.astype(o_ref.dtype)


def along_middle(x: Array, reduction, bm: int, bn: int, dtype) -> Array:
    """Reduce x (A, N, C) or (A, N, R, C) along N, as ``dtype``, in blocks of about ``bm`` rows and ``bn`` columns."""
    block, partial = _block(x.shape, bm, bn)
    outer, along, *rest = (pl.cdiv(size, each) for size, each in zip(x.shape, block, strict=True))
    acc = accumulator(x.dtype)
    kernel = functools.partial(
        _kernel, along=reduction.along, both=reduction.both, start=reduction.start(acc), size=x.shape[1]
    )
    return pl.pallas_call(
        kernel,
        out_shape=out_type(x, (x.shape[0], *x.shape[2:]), dtype),
        grid=(outer, *rest, along),  # what is reduced runs last
        in_specs=[pl.BlockSpec(block, lambda a, *at: (a, at[-1], *at[:-1]))],
        out_specs=pl.BlockSpec((block[0], *block[2:]), lambda a, *at: (a, *at[:-1])),
        scratch_shapes=[pltpu.VMEM(partial, acc)],
        compiler_params=compiler_params(
            vmem_bytes(x.shape, bm, bn, x.dtype.itemsize), *["parallel"] * (len(rest) + 1), "arbitrary"
        ),
    )(x)


def _block(view: tuple[int, ...], bm: int, bn: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of a block, and that of its partial results."""
    view = planned(view)
    outer, size, *_ = view
    if len(view) == 3:
        along = min(whole(size, SUBLANES), max(1, bm // min(outer, SUBLANES) // SUBLANES) * SUBLANES)
        block = axes.block(view, along, bm, bn, step=SUBLANES)
        return block, (block[0], SUBLANES, block[2])
    block = axes.block(view, min(size, max(1, bm // SUBLANES)), bm, bn)
    return block, (block[0], *block[2:])


def vmem_bytes(view: tuple[int, ...], bm: int, bn: int, itemsize: int) -> int:
    """Return the VMEM that the blocks of x and of the result take, each twice, and the partial results."""
    block, partial = _block(view, bm, bn)
    result = (block[0], *block[2:])
    return 2 * itemsize * (_padded(block) + _padded(result)) + 4 * _padded(partial)


def _padded(block: tuple[int, ...]) -> int:
    *outer, rows, columns = block
    elements = whole(rows, SUBLANES) * whole(columns, LANES)
    for size in outer:
        elements *= size
    return elements
