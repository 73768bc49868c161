"""Reductions: ``o[i] = sum_j x[i, j]``, the maximum likewise, over columns, over rows, or over everything.

Cost   FLOPs M * N;  HBM bytes M * N * itemsize + size of the result * itemsize: x is read once.
       Over everything, two reductions follow each other: the shorter side of x goes through HBM, in f32, between them
VMEM   2 * bm * bn * itemsize, and in f32 8 * bn over rows, 128 * bm over columns, 1024 for a vector

A block is reduced to what fits registers without mixing lanes or sublanes: over rows to (8, bn), over columns to
(bm, 128). These partial results wait in VMEM for the next block; the last step alone pays for the mixing. The (bm, 128)
are turned on their side first, so that a row of results is written, not a column, which would fill one lane in 128.
A vector is one long row, and seen as rows of 128 inside the kernel.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels import platforms, vmem
from course_lib.kernels.reduce_blocks import Blocks, accumulator, blocks_for, checked_axis, whole


def reference(x: Num[Array, "*shape"], axis: int | None = None) -> Num[Array, "*rest"]:
    """What ``sum_over`` must compute: floats in f32, rounded once."""
    return jnp.sum(x.astype(accumulator(x.dtype)), axis).astype(x.dtype)


def reference_max(x: Num[Array, "*shape"], axis: int | None = None) -> Num[Array, "*rest"]:
    """What ``max_over`` must compute."""
    return jnp.max(x, axis)


class _Reduction(NamedTuple):
    along: Callable  # of one array, along an axis
    both: Callable  # of two arrays
    start: Callable  # what changes nothing, for a dtype
    plain: Callable


_REDUCTIONS = {
    "sum": _Reduction(jnp.sum, jnp.add, lambda dtype: 0, jnp.sum),
    "max": _Reduction(jnp.max, jnp.maximum, lambda dtype: _least(dtype), jnp.max),
}


def _least(dtype):
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _rows_kernel(
    x_ref: Num[Ref, "bm bn"],
    o_ref: Num[Ref, "1 bn"],
    acc_ref: Num[Ref, "8 bn"],  # scratch: stays while i runs
    *,
    name: str,
    shape: tuple[int, int],
) -> None:
    reduction, (bm, bn) = _REDUCTIONS[name], x_ref.shape
    i = pl.program_id(1)

    @pl.when(i == 0)
    def _start():
        acc_ref[...] = jnp.full_like(acc_ref, reduction.start(acc_ref.dtype))

    x = _inside(x_ref[...].astype(acc_ref.dtype), i * bm, shape[0], 0, reduction)
    acc_ref[...] = reduction.both(acc_ref[...], reduction.along(x.reshape(bm // 8, 8, bn), axis=0))

    @pl.when(i == pl.num_programs(1) - 1)
    def _finish():
        o_ref[...] = reduction.along(acc_ref[...], axis=0, keepdims=True).astype(o_ref.dtype)


def _columns_kernel(
    x_ref: Num[Ref, "bm bn"],
    o_ref: Num[Ref, "1 bm"],
    acc_ref: Num[Ref, "bm 128"],  # scratch: stays while j runs
    *,
    name: str,
    shape: tuple[int, int],
) -> None:
    reduction, bn = _REDUCTIONS[name], x_ref.shape[1]
    j = pl.program_id(1)

    @pl.when(j == 0)
    def _start():
        acc_ref[...] = jnp.full_like(acc_ref, reduction.start(acc_ref.dtype))

    for k in range(0, bn, 128):
        x = x_ref[:, k : k + 128].astype(acc_ref.dtype)
        acc_ref[...] = reduction.both(acc_ref[...], _inside(x, j * bn + k, shape[1], 1, reduction, step=bn))

    @pl.when(j == pl.num_programs(1) - 1)
    def _finish():
        o_ref[...] = reduction.along(acc_ref[...].T, axis=0, keepdims=True).astype(o_ref.dtype)


def _vector_kernel(
    x_ref: Num[Ref, "1 bn"],
    o_ref: Num[Ref, "1 1"],
    acc_ref: Num[Ref, "8 128"],  # scratch: stays while j runs
    *,
    name: str,
    shape: tuple[int, int],
) -> None:
    reduction, bn = _REDUCTIONS[name], x_ref.shape[1]
    j = pl.program_id(1)

    @pl.when(j == 0)
    def _start():
        acc_ref[...] = jnp.full_like(acc_ref, reduction.start(acc_ref.dtype))

    x = x_ref[...].astype(acc_ref.dtype).reshape(bn // 1024, 8, 128)
    if shape[1] % bn:
        n, row, lane = (lax.broadcasted_iota(jnp.int32, x.shape, axis) for axis in range(3))
        x = jnp.where(j * bn + n * 1024 + row * 128 + lane < shape[1], x, reduction.start(x.dtype))
    acc_ref[...] = reduction.both(acc_ref[...], reduction.along(x, axis=0))

    @pl.when(j == pl.num_programs(1) - 1)
    def _finish():
        o_ref[...] = reduction.along(acc_ref[...], keepdims=True).astype(o_ref.dtype)


def _inside(x, first, size, axis, reduction, step=None):
    """``x``, whose first index along ``axis`` is ``first``, with nothing in it from past ``size``."""
    if size % (step or x.shape[axis]) == 0:
        return x
    at = first + lax.broadcasted_iota(jnp.int32, x.shape, axis)
    return jnp.where(at < size, x, reduction.start(x.dtype))


def sum_over(x: Num[Array, "*shape"], axis: int | None = None, *, blocks: Blocks | None = None) -> Num[Array, "*rest"]:
    """The sum over ``axis``: None (everything), -1, or 0 of a matrix. f32, bf16 or int32, and so is the result.

    Floats are summed in f32 and rounded once. Differentiable; the gradient is broadcast by XLA, which needs no kernel
    for it. Runs on a TPU as a kernel and as plain JAX elsewhere. Raises ValueError for another axis or dtype, or where
    the blocks need more VMEM than there is.
    """
    return _reduce(x, "sum", checked_axis("sum_over", x, axis), blocks)


def max_over(x: Num[Array, "*shape"], axis: int | None = None, *, blocks: Blocks | None = None) -> Num[Array, "*rest"]:
    """The maximum; as ``sum_over``. NaN where there is one.

    Equal maxima share the gradient, as those of ``jnp.max`` do. Raises ValueError also where there is nothing to
    choose from.
    """
    axis = checked_axis("max_over", x, axis)
    if not (x.size if axis is None else x.shape[axis]):
        raise ValueError(f"max_over: x has shape {x.shape}, and nothing has no maximum. Try a longer axis than {axis}.")
    return _reduce(x, "max", axis, blocks)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _reduce(x, name, axis, blocks):
    def plain(x):
        return _REDUCTIONS[name].plain(x.astype(accumulator(x.dtype)), axis).astype(x.dtype)

    if not x.size or not x.ndim:
        return plain(x)
    flat = math.prod(x.shape[:-1]), x.shape[-1]
    steps = [0 if x.ndim == 2 and axis == 0 else 1]
    if axis is None and flat[0] > 1:
        steps = [0 if flat[0] >= flat[1] else 1, 1]  # the longer side first, so that less lies between
    for shape, step in zip((flat, (1, min(flat))), steps, strict=False):
        chosen = blocks or blocks_for(*shape, x.dtype.itemsize)
        vmem.check_fits(chosen, _vmem_bytes(_plan(shape, step, chosen), x.dtype.itemsize))

    def on_tpu(x):
        dtype, x = x.dtype, x.reshape(flat)
        for step in steps[:-1]:
            x = _along(x, name, step, blocks, accumulator(dtype))
        return _along(x, name, steps[-1], blocks, dtype).reshape(rest)

    rest = () if axis is None else x.shape[:axis] + x.shape[axis + 1 :]
    return platforms.by_platform(x, tpu=on_tpu, default=plain)


def _forward(x, name, axis, blocks):
    out = _reduce(x, name, axis, blocks)
    return out, (x, out) if name == "max" else x


def _backward(name, axis, blocks, saved, g):
    x, out = saved if name == "max" else (saved, None)
    if name == "sum":
        return (jnp.broadcast_to(_with_axis(g, axis), x.shape),)
    chosen = (x == _with_axis(out, axis)).astype(g.dtype)
    return (chosen * _with_axis(g / _reduce(chosen, "sum", axis, blocks), axis),)


def _with_axis(reduced, axis):
    return reduced if axis is None else jnp.expand_dims(reduced, axis)


_reduce.defvjp(_forward, _backward)


class _Plan(NamedTuple):
    kernel: Callable
    block: tuple[int, int]
    result: tuple[int, int]  # the block of results
    partial: tuple[int, int]  # the scratch


def _plan(shape: tuple[int, int], axis: int, blocks: Blocks) -> _Plan:
    """Which kernel reduces an array of ``shape`` along ``axis``, and its blocks, cut down to the array."""
    rows, columns = shape
    bm, bn = min(blocks.bm, rows), min(blocks.bn, whole(columns, 128))
    if axis == 0:
        return _Plan(_rows_kernel, (whole(bm, 8), bn), (1, bn), (8, bn))
    if rows == 1:
        return _Plan(_vector_kernel, (1, min(blocks.bm * blocks.bn, whole(columns, 1024))), (1, 1), (8, 128))
    return _Plan(_columns_kernel, (bm, bn), (1, bm), (bm, 128))


def _vmem_bytes(plan: _Plan, itemsize: int) -> int:
    held = whole(plan.block[0], 8) * plan.block[1] + 8 * whole(plan.result[1], 128)
    return 2 * itemsize * held + 4 * whole(plan.partial[0], 8) * plan.partial[1]


def _along(x, name, axis, blocks, dtype):
    """x of shape (M, N) reduced to (1, N) over its rows, or to (1, M) over its columns, as ``dtype``."""
    plan = _plan(x.shape, axis, blocks or blocks_for(*x.shape, x.dtype.itemsize))
    rows, columns = (pl.cdiv(size, block) for size, block in zip(x.shape, plan.block, strict=True))
    return pl.pallas_call(
        functools.partial(plan.kernel, name=name, shape=x.shape),
        out_shape=jax.ShapeDtypeStruct((1, x.shape[1 - axis]), dtype),
        grid=(columns, rows) if axis == 0 else (rows, columns),  # what is summed over runs last
        in_specs=[pl.BlockSpec(plan.block, lambda a, b: (b, a) if axis == 0 else (a, b))],
        out_specs=pl.BlockSpec(plan.result, lambda a, b: (0, a)),
        scratch_shapes=[pltpu.VMEM(plan.partial, accumulator(x.dtype))],
        compiler_params=vmem.compiler_params(_vmem_bytes(plan, x.dtype.itemsize), "parallel", "arbitrary"),
    )(x)
