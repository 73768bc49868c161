"""Reductions: ``o[i] = sum_j x[i, j]``, the maximum likewise, over any axis, over several, or over everything.

Cost   FLOPs M * N;  HBM bytes (M * N + size of the result) * itemsize: x is read once.
       Everything is reduced in two passes; the shorter side of x goes through HBM between them, in f32.
       Several axes are reduced in as many passes, the longest first
VMEM   2 * bm * bn * itemsize, and in f32 8 * bn over rows, 128 * bm over columns, 1024 for a vector

A block is folded into partial results that fit registers, without mixing lanes or sublanes: over rows into (8, bn),
over columns into (bm, 128). They wait in VMEM for the next block, and only the last step pays for the mixing.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels.common.along_axis import accumulator
from course_lib.kernels.common.legal import LANES, check
from course_lib.kernels.common.outputs import out_type

Axes = int | tuple[int, ...] | None  # None: all of them


def sum_over_reference(x: Num[Array, "*shape"], axis: Axes = None) -> Num[Array, "*rest"]:
    """Return what ``sum_over`` must compute: floats in f32, rounded once."""
    return jnp.sum(x.astype(accumulator(x.dtype)), axis).astype(x.dtype)


def max_over_reference(x: Num[Array, "*shape"], axis: Axes = None) -> Num[Array, "*rest"]:
    """Return what ``max_over`` must compute."""
    return jnp.max(x, axis)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes, multiples of 128. They change the speed, not the result (but for the order of a sum)."""

    bm: int = 128  # rows, which become columns on the way
    bn: int = 2048

    def __post_init__(self):
        check(self, bm=LANES, bn=LANES)


class Reduction(NamedTuple):
    along: Callable  # of one array, along an axis
    both: Callable  # of two arrays, element by element
    start: Callable  # of a dtype: the value that changes nothing


SUM = Reduction(jnp.sum, jnp.add, lambda dtype: 0)
MAX = Reduction(jnp.max, jnp.maximum, lambda t: -jnp.inf if jnp.issubdtype(t, jnp.floating) else jnp.iinfo(t).min)


def _kernel(
    x_ref: Num[Ref, "_bm _bn"],  # block (i, j)
    o_ref: Num[Ref, "1 _results"],  # block (0, i), or (0, j) over rows: stays put while the reduced axis runs
    acc_ref: Num[Ref, "_rows _lanes"],  # scratch: partial results, in f32 or int32
    *,
    reduction,
    fold,  # a block into the partial results
    finish,
) -> None:
    step = pl.program_id(1)

    @pl.when(step == 0)
    def _start():
        acc_ref[...] = jnp.full_like(acc_ref, reduction.start(acc_ref.dtype))

    fold(x_ref, acc_ref, step)

    @pl.when(step == pl.num_programs(1) - 1)
    def _finish():
        o_ref[...] = finish(acc_ref[...]).astype(o_ref.dtype)


def _fold_rows(x_ref: Num[Ref, "bm bn"], acc_ref: Num[Ref, "8 bn"], i, *, reduction, size):
    (bm, bn), x = x_ref.shape, x_ref[...].astype(acc_ref.dtype)
    if size % bm:  # the last block reaches past the array into garbage
        at = i * bm + lax.broadcasted_iota(jnp.int32, x.shape, 0)
        x = jnp.where(at < size, x, reduction.start(x.dtype))
    acc_ref[...] = reduction.both(acc_ref[...], reduction.along(x.reshape(bm // 8, 8, bn), axis=0))


def _fold_columns(x_ref: Num[Ref, "bm bn"], acc_ref: Num[Ref, "bm 128"], j, *, reduction, size):
    bn = x_ref.shape[1]
    for piece in range(0, bn, 128):
        x = x_ref[:, piece : piece + 128].astype(acc_ref.dtype)
        if size % bn:
            at = j * bn + piece + lax.broadcasted_iota(jnp.int32, x.shape, 1)
            x = jnp.where(at < size, x, reduction.start(x.dtype))
        acc_ref[...] = reduction.both(acc_ref[...], x)


def _fold_vector(x_ref: Num[Ref, "1 bn"], acc_ref: Num[Ref, "8 128"], j, *, reduction, size):
    """Fold one long row, seen as rows of 128."""
    bn = x_ref.shape[1]
    x = x_ref[...].astype(acc_ref.dtype).reshape(bn // 1024, 8, 128)
    if size % bn:
        n, row, lane = (lax.broadcasted_iota(jnp.int32, x.shape, axis) for axis in range(3))
        x = jnp.where(j * bn + n * 1024 + row * 128 + lane < size, x, reduction.start(x.dtype))
    acc_ref[...] = reduction.both(acc_ref[...], reduction.along(x, axis=0))


def launch(x, reduction, axis, block, dtype, vmem_limit_bytes=None) -> Array:
    """Reduce x (M, N) over its rows (axis 0) to (1, N), or over its columns to (1, M), as ``dtype``, on one TPU."""
    (bm, bn), along = block, functools.partial(reduction.along, keepdims=True)
    if axis == 0:
        fold, partial, result, finish = _fold_rows, (8, bn), bn, lambda acc: along(acc, axis=0)
    elif x.shape[0] == 1:
        fold, partial, result, finish = _fold_vector, (8, 128), 1, along
    else:  # transposed at the end, because a column of results would fill one lane in 128
        fold, partial, result, finish = _fold_columns, (bm, 128), bm, lambda acc: along(acc.T, axis=0)
    fold = functools.partial(fold, reduction=reduction, size=x.shape[axis])
    rows, columns = map(pl.cdiv, x.shape, block)
    return pl.pallas_call(
        functools.partial(_kernel, reduction=reduction, fold=fold, finish=finish),
        out_shape=out_type(x, (1, x.shape[1 - axis]), dtype),
        grid=(columns, rows) if axis == 0 else (rows, columns),  # the reduced axis runs last
        in_specs=[pl.BlockSpec(block, lambda a, b: (b, a) if axis == 0 else (a, b))],
        out_specs=pl.BlockSpec((1, result), lambda a, b: (0, a)),
        scratch_shapes=[pltpu.VMEM(partial, accumulator(x.dtype))],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=vmem_limit_bytes
        ),
    )(x)
