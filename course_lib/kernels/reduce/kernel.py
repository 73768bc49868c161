"""Reductions: ``o[i] = sum_j x[i, j]``, the maximum likewise, over any axis, over several, or over everything.

Cost   FLOPs M * N;  HBM bytes M * N * itemsize + size of the result * itemsize: x is read once.
       Over everything, two reductions follow each other: the shorter side of x goes through HBM, in f32, between them.
       Over several axes it is one reduction an axis, the longest first
VMEM   2 * bm * bn * itemsize, and in f32 8 * bn over rows, 128 * bm over columns, 1024 for a vector

A block is reduced to what fits registers without mixing lanes or sublanes: over rows to (8, bn), over columns to
(bm, 128). These partial results wait in VMEM for the next block; the last step alone pays for the mixing. An axis
between others has a kernel of its own: ``reduce_middle``.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Described, Num, Ref
from course_lib.kernels.common import arguments, axes, legal
from course_lib.kernels.common.along_axis import accumulator, sizes_for, whole
from course_lib.kernels.common.compiler_params import check_fits, compiler_params
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.symbolic import cut, planned
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.reduce import middle as reduce_middle
from course_lib.kernels.reduce import passes as reduce_passes

Axes = int | tuple[int, ...] | None  # None: all of them


def sum_over_reference(x: Num[Array, "*shape"], axis: Axes = None) -> Num[Array, "*rest"]:
    """What ``sum_over`` must compute: floats in f32, rounded once."""
    return jnp.sum(x.astype(accumulator(x.dtype)), axis).astype(x.dtype)


def max_over_reference(x: Num[Array, "*shape"], axis: Axes = None) -> Num[Array, "*rest"]:
    """What ``max_over`` must compute."""
    return jnp.max(x, axis)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes: rows and columns, multiples of 128, both: rows become columns on the way.

    They never change the result (but for the order of a sum), only the speed. A block may be larger than the array.
    """

    bm: int = 128
    bn: int = 2048

    def __post_init__(self):
        legal.check(self, bm=legal.LANES, bn=legal.LANES)


class _Reduction(NamedTuple):
    name: str
    sign: str  # of an axis whose parts lie on several devices, in a rule
    along: Callable  # of one array, along an axis
    both: Callable  # of two arrays, element by element
    start: Callable  # what changes nothing, for a dtype


def _least(dtype):
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


_SUM = _Reduction("sum_over", "+", along=jnp.sum, both=jnp.add, start=lambda dtype: 0)
_MAX = _Reduction("max_over", "^", along=jnp.max, both=jnp.maximum, start=_least)


def _rows_kernel(
    x_ref: Num[Ref, "bm bn"],  # block (i, j)
    o_ref: Num[Ref, "1 bn"],  # block (0, j): stays put while i runs
    acc_ref: Num[Ref, "8 bn"],  # scratch: partial results, in f32 or int32
    *,
    reduction: _Reduction,
    size: int,  # of the axis, which the last block may reach past
) -> None:
    i, (bm, bn) = pl.program_id(1), x_ref.shape

    @pl.when(i == 0)
    def _start():
        acc_ref[...] = jnp.full_like(acc_ref, reduction.start(acc_ref.dtype))

    x = x_ref[...].astype(acc_ref.dtype)
    if size % bm:
        x = _inside(x, 0, i * bm, size, reduction)
    acc_ref[...] = reduction.both(acc_ref[...], reduction.along(x.reshape(bm // 8, 8, bn), axis=0))

    @pl.when(i == pl.num_programs(1) - 1)
    def _finish():
        o_ref[...] = reduction.along(acc_ref[...], axis=0, keepdims=True).astype(o_ref.dtype)


def _columns_kernel(
    x_ref: Num[Ref, "bm bn"],  # block (i, j)
    o_ref: Num[Ref, "1 bm"],  # block (0, i): stays put while j runs
    acc_ref: Num[Ref, "bm 128"],  # scratch: partial results
    *,
    reduction: _Reduction,
    size: int,
) -> None:
    j, bn = pl.program_id(1), x_ref.shape[1]

    @pl.when(j == 0)
    def _start():
        acc_ref[...] = jnp.full_like(acc_ref, reduction.start(acc_ref.dtype))

    for piece in range(0, bn, 128):
        x = x_ref[:, piece : piece + 128].astype(acc_ref.dtype)
        if size % bn:
            x = _inside(x, 1, j * bn + piece, size, reduction)
        acc_ref[...] = reduction.both(acc_ref[...], x)

    @pl.when(j == pl.num_programs(1) - 1)
    def _finish():  # turned on its side: a column of results would fill one lane in 128
        o_ref[...] = reduction.along(acc_ref[...].T, axis=0, keepdims=True).astype(o_ref.dtype)


def _vector_kernel(
    x_ref: Num[Ref, "1 bn"],  # one long row, seen as rows of 128
    o_ref: Num[Ref, "1 1"],
    acc_ref: Num[Ref, "8 128"],  # scratch: partial results
    *,
    reduction: _Reduction,
    size: int,
) -> None:
    j, bn = pl.program_id(1), x_ref.shape[1]

    @pl.when(j == 0)
    def _start():
        acc_ref[...] = jnp.full_like(acc_ref, reduction.start(acc_ref.dtype))

    x = x_ref[...].astype(acc_ref.dtype).reshape(bn // 1024, 8, 128)
    if size % bn:
        n, row, lane = (lax.broadcasted_iota(jnp.int32, x.shape, axis) for axis in range(3))
        x = jnp.where(j * bn + n * 1024 + row * 128 + lane < size, x, reduction.start(x.dtype))
    acc_ref[...] = reduction.both(acc_ref[...], reduction.along(x, axis=0))

    @pl.when(j == pl.num_programs(1) - 1)
    def _finish():
        o_ref[...] = reduction.along(acc_ref[...], keepdims=True).astype(o_ref.dtype)


def _inside(x, axis: int, first, size: int, reduction: _Reduction):
    """``x``, whose first index along ``axis`` is ``first``, with nothing in it from past ``size``: that is garbage."""
    at = first + lax.broadcasted_iota(jnp.int32, x.shape, axis)
    return jnp.where(at < size, x, reduction.start(x.dtype))


def sum_over(
    x: Num[Array, "*shape"], axis: Axes = None, *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*rest"]:
    """The sum over ``axis``: one, several in a tuple, or None, everything. f32, bf16 or int32, and so is the result.

    Floats are summed in f32 and rounded once. Differentiable; the gradient is broadcast by XLA, which needs no kernel
    for it. Runs on a TPU as a kernel and as plain JAX elsewhere. ``layout`` says how x lies on a mesh with Auto axes.
    Raises ValueError where x has no such axis, for another dtype, or where the blocks need more VMEM than there is.
    """
    (x,) = arguments.arrays("sum_over", arguments.NUMBERS, x=x)
    legal.check_kind("sum_over", blocks, Blocks)
    axis = axes.several("sum_over", x, axis)
    (x,), cuts = sharding.ready("sum_over", _rule(x.ndim, axis, _SUM), (x,), layout)
    return _reduce(x, _SUM, axis, blocks, cuts)


def max_over(
    x: Num[Array, "*shape"], axis: Axes = None, *, blocks: Blocks | None = None, layout: Layout = None
) -> Num[Array, "*rest"]:
    """The maximum; as ``sum_over``. NaN where there is one.

    Equal maxima share the gradient, as those of ``jnp.max`` do. Raises ValueError also where there is nothing to
    choose from.
    """
    (x,) = arguments.arrays("max_over", arguments.NUMBERS, x=x)
    legal.check_kind("max_over", blocks, Blocks)
    axis = axes.several("max_over", x, axis)
    if 0 in (x.shape if axis is None else [x.shape[each] for each in axis]):
        raise ValueError(
            f"max_over: x has shape {x.shape}, and nothing has no maximum. Try an axis along which it is not empty."
        )
    (x,), cuts = sharding.ready("max_over", _rule(x.ndim, axis, _MAX), (x,), layout)
    return _reduce(x, _MAX, axis, blocks, cuts)


def blocks_for(x: Num[Described, "*shape"], axis: Axes = None) -> Blocks:
    """The blocks that ``sum_over`` and ``max_over`` choose, for the first of several passes; right for every chip."""
    first = reduce_passes.passes(planned(x.shape), axes.several("blocks_for", x, axis))[0]
    return _blocks_for(first.view, x.dtype.itemsize)


def _blocks_for(view: tuple[int, ...], itemsize: int) -> Blocks:
    bm, bn = sizes_for(math.prod(view[:-1]), view[-1], itemsize)
    return Blocks(bm=bm, bn=bn)


def _rule(rank: int, axis: tuple[int, ...] | None, reduction: _Reduction) -> str:
    letters = mesh_rules.letters(rank).split()
    out = (reduction.sign + letter if axis is None or n in axis else letter for n, letter in enumerate(letters))
    return f"{' '.join(letters)} -> {' '.join(out)}"


@functools.partial(differentiable, settings=4)
def _reduce(x, reduction, axis, blocks, cuts):
    plain = fixed(_plain, reduction=reduction, axis=axis)
    if not x.size or not x.ndim or axis == ():
        return plain(x)
    for each in reduce_passes.passes(planned(x.shape), axis):
        chosen = blocks or _blocks_for(each.view, x.dtype.itemsize)
        check_fits(chosen, _vmem_bytes(each.view, each.axis, chosen, x.dtype.itemsize))
    on_tpu = fixed(_on_tpu, reduction=reduction, axis=axis, blocks=blocks)
    rule = _rule(x.ndim, axis, reduction)
    return Op(name=reduction.name, rule=rule, tpu=on_tpu, plain=plain)(x, cuts=cuts)


def _plain(x, *, reduction, axis):
    out = reduction.along(x.astype(accumulator(x.dtype)), axis).astype(x.dtype)
    if reduction is _MAX and jnp.issubdtype(x.dtype, jnp.floating):  # XLA's own for a CPU loses NaN in wide columns
        out = jnp.where(jnp.isnan(x).any(axis), jnp.nan, out).astype(x.dtype)
    return out


def _on_tpu(x, *, reduction, axis, blocks):
    out, passes = x, reduce_passes.passes(x.shape, axis)
    for n, each in enumerate(passes, 1):
        dtype = x.dtype if n == len(passes) else accumulator(x.dtype)
        out = _along(each.seen(out), reduction, each.axis, blocks, dtype)
    left = () if axis is None else (size for n, size in enumerate(x.shape) if n not in axis)
    return out.reshape(tuple(left))


def _forward(x, reduction, axis, blocks, cuts):
    out = _reduce(x, reduction, axis, blocks, cuts)
    return out, (x, out) if reduction is _MAX else x


def _backward(reduction, axis, blocks, cuts, saved, g):
    if reduction is _SUM:
        return (_spread(g, axis, saved),)
    x, out = saved
    chosen = (x == _spread(out, axis, x)).astype(g.dtype)
    return (chosen * _spread(g / _reduce(chosen, _SUM, axis, blocks, cuts), axis, x),)


def _spread(reduced, axis, x):
    """``reduced``, repeated along the axis that x has more; cut as x is."""
    wide = reduced if axis is None else jnp.expand_dims(reduced, axis)
    return jnp.broadcast_to(wide, x.shape, out_sharding=sharding.known(x))


_reduce.defvjp(_forward, _backward)


class _Plan(NamedTuple):
    kernel: Callable
    block: tuple[int, int]
    result: tuple[int, int]  # the block of results
    partial: tuple[int, int]  # the scratch


def _plan(shape: tuple[int, int], axis: int, blocks: Blocks) -> _Plan:
    """Which kernel reduces an array of ``shape`` along ``axis``, and its blocks, cut down to the array."""
    rows, columns = shape
    bm, bn = cut(blocks.bm, rows), cut(blocks.bn, whole(columns, 128))
    if axis == 0:
        return _Plan(_rows_kernel, (whole(bm, 8), bn), (1, bn), (8, bn))
    if rows == 1:
        return _Plan(_vector_kernel, (1, min(blocks.bm * blocks.bn, whole(columns, 1024))), (1, 1), (8, 128))
    return _Plan(_columns_kernel, (bm, bn), (1, bm), (bm, 128))


def _vmem_bytes(view: tuple[int, ...], axis: int, blocks: Blocks, itemsize: int) -> int:
    if len(view) > 2:
        return reduce_middle.vmem_bytes(view, blocks.bm, blocks.bn, itemsize)
    return _vmem_of(_plan(view, axis, blocks), itemsize)


def _vmem_of(plan: _Plan, itemsize: int) -> int:
    rows = whole(plan.block[0], 8) if plan.block[0] > 1 else 1  # a single row is not padded
    held = rows * plan.block[1] + 8 * whole(plan.result[1], 128)
    return 2 * itemsize * held + 4 * whole(plan.partial[0], 8) * plan.partial[1]


def _along(x, reduction, axis, blocks, dtype):
    """x of shape (M, N) reduced to (1, N) over its rows, or to (1, M) over its columns, as ``dtype``.

    Or x of shape (A, N, C) or (A, N, R, C) over N.
    """
    blocks = blocks or _blocks_for(x.shape, x.dtype.itemsize)
    if x.ndim > 2:
        return reduce_middle.along_middle(x, reduction, blocks.bm, blocks.bn, dtype)
    plan = _plan(x.shape, axis, blocks)
    rows, columns = (pl.cdiv(size, block) for size, block in zip(x.shape, plan.block, strict=True))
    return pl.pallas_call(
        functools.partial(plan.kernel, reduction=reduction, size=x.shape[axis]),
        out_shape=out_type(x, (1, x.shape[1 - axis]), dtype),
        grid=(columns, rows) if axis == 0 else (rows, columns),  # what is summed over runs last
        in_specs=[pl.BlockSpec(plan.block, lambda a, b: (b, a) if axis == 0 else (a, b))],
        out_specs=pl.BlockSpec(plan.result, lambda a, b: (0, a)),
        scratch_shapes=[pltpu.VMEM(plan.partial, accumulator(x.dtype))],
        compiler_params=compiler_params(_vmem_of(plan, x.dtype.itemsize), "parallel", "arbitrary"),
    )(x)
