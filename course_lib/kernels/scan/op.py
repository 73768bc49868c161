"""Cumulative sums along any axis: ``o[i, j] = x[i, 0] + ... + x[i, j]``, or down the rows, forwards or in reverse.

Cost   FLOPs 4 * size (below);  HBM bytes 2 * size * itemsize: every element read once and written once
VMEM   4 * bm * bn * itemsize, and 12 * bm * bn along the last axis, where blocks are turned; and the carry, a row or so

Blocks go by in order, and the last sums of one wait in VMEM for the next: the carry. The chip has no cumulative sum.
Within a block 8 rows are summed at a time: each is added to the next, then to the one 2 further, then 4 further (Hillis
and Steele, Data parallel algorithms, CACM 29, 1986), and the carry on top. Along columns a block is turned on its side
first, summed in the same way and turned back. Few long rows would fill few lanes then: they are cut into pieces of 128,
which lie side by side. Along an axis further to the front planes are added, and nothing is turned.

Why this way: predicted cycles for f32 (8192, 2048) on a v5e, where HBM alone needs 245k: down the rows 152k; along
columns 164k. By rotating lanes along columns, 7 times instead of 3, it takes 1,158k. Multiplying by a triangle of ones
on the MXU takes 216k at HIGHEST precision, and 174k as three bf16 products in which the triangle is exact; but one
infinity would make a whole row NaN there, and integers would need another way.
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

from course_lib.arrays import Array, Described, Num
from course_lib.kernels.common import arguments, axes, legal
from course_lib.kernels.common.along_axis import accumulator, sizes_for, whole
from course_lib.kernels.common.compiler_params import check_fits, compiler_params
from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.common.legal import LANES, SUBLANES
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.symbolic import cut, planned
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.scan import kernel as scan_kernels


def reference(x: Num[Array, "*shape"], axis: int = -1, *, reverse: bool = False) -> Num[Array, "*shape"]:
    """What ``cumsum`` must compute: floats in f32, rounded once."""
    return lax.cumsum(x.astype(accumulator(x.dtype)), axis % x.ndim, reverse).astype(x.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes: rows, and columns. They never change the result (but for the order of a sum), only the speed.

    Legal: bn a multiple of 128; bm of 128, or of 32 where the last axis is not the one that is summed. A block may be
    larger than the array. For few long rows ``blocks_for`` has others, and a vector takes none.
    """

    bm: int = 512
    bn: int = 512

    def __post_init__(self):
        legal.check(self, bm=legal.SUBLANES, bn=legal.LANES)


def cumsum(
    x: Num[Array, "*shape"],
    axis: int = -1,
    *,
    reverse: bool = False,
    blocks: Blocks | None = None,
    layout: Layout = None,
) -> Num[Array, "*shape"]:
    """Cumulative sums along ``axis``, any of an array of f32, bf16 or int32; and so is the result.

    ``reverse`` begins at the end. Floats are summed in f32 and rounded once. Differentiable: the gradient is the
    cumulative sum the other way round, by the same kernel. Runs on a TPU as a kernel and as plain JAX elsewhere.
    ``layout`` says how x lies on a mesh with Auto axes; where ``axis`` itself is cut, each device adds what was before.
    Raises ValueError for another axis or dtype, or where the blocks need more VMEM than there is.
    """
    (x,) = arguments.arrays("cumsum", arguments.NUMBERS, x=x)
    axis = axes.one("cumsum", x, axis)
    legal.check_kind("cumsum", blocks, Blocks)
    (x,), cuts = sharding.ready("cumsum", _rule(x.ndim, axis, reverse), (x,), layout)
    return _cumsum(x, axis, reverse, blocks, cuts)


def blocks_for(x: Num[Described, "*shape"], axis: int = -1, *, reverse: bool = False) -> Blocks:
    """The blocks that ``cumsum`` chooses for these arguments; right for every chip.

    Of a matrix that XLA stores by columns they are those of its transpose, which is what the kernel sees.
    """
    return _plan(x.shape, x.dtype, axis % x.ndim, None).blocks


def _rule(rank: int, axis: int, reverse: bool) -> str:
    out = (axes := mesh_rules.letters(rank).split()).copy()
    out[axis] = ("<" if reverse else ">") + out[axis]
    return f"{' '.join(axes)} -> {' '.join(out)}"


@functools.partial(differentiable, settings=4)
def _cumsum(x, axis, reverse, blocks, cuts):
    plain = fixed(reference, axis=axis, reverse=reverse)
    if not x.size:
        return plain(x)
    plan = _plan(x.shape, x.dtype, axis, blocks)
    check_fits(plan.blocks, plan.vmem_bytes)
    on_tpu = fixed(_on_tpu, axis=axis, reverse=reverse, blocks=blocks)
    return Op(name="cumsum", rule=_rule(x.ndim, axis, reverse), tpu=on_tpu, plain=plain)(x, cuts=cuts)


def _forward(x, *how):
    return _cumsum(x, *how), None


def _backward(axis, reverse, blocks, cuts, _, g):
    return (_cumsum(g, axis, not reverse, blocks, cuts),)


_cumsum.defvjp(_forward, _backward)


class _Plan(NamedTuple):
    """How an array is seen, which of these axes is summed, by which kernel and in which blocks."""

    kernel: Callable
    view: tuple[int, ...]
    axis: int
    block: tuple[int | None, ...]
    carry: tuple[int, int]
    blocks: Blocks
    turned: bool  # within the block, for which there must be room
    transposed: bool = False  # before all else

    @property
    def vmem_bytes(self) -> int:
        """With four bytes an element: right for f32, and enough for bf16."""
        area = math.prod(length for length in self.block if length)
        return area * (16 + 12 * self.turned) + 4 * math.prod(self.carry)


def _plan(shape: tuple[int, ...], dtype, axis: int, blocks: Blocks | None) -> _Plan:
    if blocks is None and is_by_columns(shape):
        return _plan(shape[::-1], dtype, 1 - axis, None)._replace(transposed=True)
    known, rows = planned(shape), math.prod(shape[:-1])
    columns = known[-1]
    if len(shape) == 1:
        return _vector_plan(whole(columns, _VECTOR_TILE))
    if axis == len(shape) - 1:
        blocks = blocks or _long_rows(math.prod(known[:-1]), columns)
        if blocks and _is_long(blocks, columns):
            block = (cut(blocks.bm, rows) if blocks.bn % scan_kernels.SQUARE == 0 else blocks.bm, blocks.bn)
            carry = (block[0], LANES)
            return _Plan(scan_kernels.long_kernel, (rows, columns), 1, block, carry, blocks, turned=True)
        blocks = blocks or Blocks(bm=min(512, whole(math.prod(known[:-1]), LANES)), bn=min(512, whole(columns, LANES)))
        legal.check(blocks, bm=LANES, bn=LANES)  # rows become columns on the way
        block, carry = (blocks.bm, blocks.bn), (SUBLANES, blocks.bm)
        return _Plan(scan_kernels.turned_kernel, (rows, columns), 1, block, carry, blocks, turned=True)
    before, summed = math.prod(shape[:axis]), shape[axis]
    if axis == len(shape) - 2:
        bm, bn = sizes_for(known[axis], columns, dtype.itemsize, widest=2048)
        blocks = blocks or Blocks(bm=bm, bn=bn)
        legal.check(blocks, bm=32, bn=LANES)  # whole registers of every dtype
        block, carry = (None, blocks.bm, blocks.bn), (SUBLANES, blocks.bn)
        view = (before, summed, shape[-1])
        return _Plan(scan_kernels.down_kernel, view, 1, block, carry, blocks, turned=False)
    blocks = blocks or Blocks(bm=32, bn=512)
    plane = cut(blocks.bm, shape[-2]), cut(blocks.bn, shape[-1])
    deep = min(known[axis], max(1, _PLANES // (blocks.bm * blocks.bn)))
    view = (before, summed, math.prod(shape[axis + 1 : -2]), *shape[-2:])
    return _Plan(scan_kernels.planes_kernel, view, 1, (None, deep, None, *plane), plane, blocks, turned=False)


def _vector_plan(size: int) -> _Plan:
    """As pieces of 128, the way a vector lies in HBM: as a row of a matrix it would be copied."""
    pieces = size // LANES
    blocks = Blocks(bm=min(_LONG // LANES, whole(pl.cdiv(pieces, 4), LANES)), bn=LANES)
    view, block, carry = (pieces, LANES), (blocks.bm, blocks.bn), (1, LANES)
    return _Plan(scan_kernels.vector_kernel, view, 0, block, carry, blocks, turned=True)


_VECTOR_TILE = SUBLANES * LANES
_PLANES = 2**18  # elements of a block of planes
_LONG = 2**18  # elements of a block of long rows, of several squares


def _long_rows(rows: int, columns: int) -> Blocks | None:
    """Blocks of few rows that are cut into pieces; None where rows are many, or short."""
    pieces = 2 ** math.ceil(math.log2(pl.cdiv(columns, LANES)))
    if rows < SUBLANES or pieces >= LANES:
        bm = SUBLANES
        squares = _LONG // (min(bm, rows) * scan_kernels.SQUARE)
        bn = scan_kernels.SQUARE * max(1, min(squares, columns // (4 * scan_kernels.SQUARE)))
    else:
        bm, bn = max(SUBLANES, LANES // pieces), pieces * LANES
    return Blocks(bm=bm, bn=bn) if bm < LANES and rows < LANES else None


def _is_long(blocks: Blocks, columns: int) -> bool:
    """Whether a block of fewer than 128 rows is cut into squares of 128 pieces of 128."""
    pieces, squares = blocks.bn // LANES, blocks.bm * blocks.bn % scan_kernels.SQUARE == 0
    whole_rows = blocks.bn >= columns and pieces & (pieces - 1) == 0 and squares
    return blocks.bm < LANES and (blocks.bn % scan_kernels.SQUARE == 0 or whole_rows)


def _on_tpu(x, *, axis, reverse, blocks):
    if x.ndim == 1:
        length = x.shape[0]
        padded = jnp.pad(x, (0, whole(length, _VECTOR_TILE) - length))
        return _launch(padded, _plan(x.shape, x.dtype, axis, blocks), reverse)[:length]
    plan = _plan(x.shape, x.dtype, axis, blocks)
    return _launch(x.T, plan, reverse).T if plan.transposed else _launch(x, plan, reverse)


def _launch(x: Array, plan: _Plan, reverse: bool) -> Array:
    steps = [pl.cdiv(size, block or 1) for size, block in zip(plan.view, plan.block, strict=True)]
    along, others = steps.pop(plan.axis), steps

    def index(*step):
        *where, n = step
        where.insert(plan.axis, along - 1 - n if reverse else n)
        return tuple(where)

    spec = pl.BlockSpec(plan.block, index)
    how = {"size": plan.view[plan.axis], "along": len(others), "reverse": reverse}
    return pl.pallas_call(
        functools.partial(plan.kernel, **how),
        out_shape=out_type(x, plan.view, x.dtype),
        grid=(*others, along),
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[pltpu.VMEM(plan.carry, accumulator(x.dtype))],
        compiler_params=compiler_params(plan.vmem_bytes, *["parallel"] * len(others), "arbitrary"),
    )(x.reshape(plan.view)).reshape(x.shape)
