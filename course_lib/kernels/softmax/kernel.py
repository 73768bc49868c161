"""Softmax: ``o[i, j] = exp(x[i, j] - max_j x[i, j]) / sum_j exp(x[i, j] - max_j x[i, j])``.

Cost   FLOPs 5 * M * N;  HBM bytes 2 * M * N * itemsize: x read once, o written once
VMEM   bm * N * (4 * itemsize + 8): x and o, each held twice so that copies overlap work, and f32 values between

An array of any rank is seen as (M, N), N its last axis, and cut into blocks of bm whole rows. Rows too long for that
are cut into bn columns and x is read twice: once for each row's maximum and sum, once for the result. Then
HBM bytes are 3 * M * N * itemsize, and VMEM bm * bn * (4 * itemsize + 8). Arithmetic is in f32 whatever x is.

Over another axis than the last x is read once as well, where it lies, in blocks of whole columns: see ``axes``. What an
element costs in VMEM is the same. Columns too long for that (from 37,000 f32 on, on a v5e) XLA turns into rows, and
back: 2 * M * N * itemsize more each time. Where fewer than 128 columns lie behind the axis XLA may store the array with
the axis last anyway, and then nothing is turned.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Described, Float, Float32, Ref
from course_lib.kernels.common import arguments, axes, chip, legal, portable, row_blocks
from course_lib.kernels.common.compiler_params import check_fits, compiler_params
from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.symbolic import cut, planned
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.norm import mosaic_gpu as norm_gpu
from course_lib.kernels.softmax import backward as softmax_backward


def reference(x: Float[Array, "*shape"], axis: int = -1) -> Float[Array, "*shape"]:
    """What ``softmax`` must compute: JAX's own in f32, rounded once to the dtype of x."""
    return jax.nn.softmax(x.astype(jnp.float32), axis=axis).astype(x.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes: rows, and columns. They never change the result, only the speed.

    ``bn=None`` is a block of whole rows, and x is read once. Legal: bm a multiple of 8, bn a multiple of 128. Over
    another axis than the last a block has all of that axis, whatever bm; bm counts the rows of all axes but the last.
    """

    bm: int
    bn: int | None = None

    def __post_init__(self):
        legal.check(self, bm=legal.SUBLANES, bn=legal.LANES)


def _whole_kernel(x_ref: Float[Ref, "*block"], o_ref: Float[Ref, "*block"], *, axis: int) -> None:
    x = x_ref[...].astype(jnp.float32)
    p = jnp.exp(x - jnp.max(x, axis=axis, keepdims=True))
    o_ref[...] = (p / jnp.sum(p, axis=axis, keepdims=True)).astype(o_ref.dtype)


def _columns_kernel(
    x_ref: Float[Ref, "bm bn"],  # block (i, j), in both passes
    o_ref: Float[Ref, "bm bn"],  # block (i, j) in the second pass; block (i, 0) waits during the first
    m_ref: Float32[Ref, "bm 1"],  # the maximum of each row so far
    l_ref: Float32[Ref, "bm 1"],  # the sum of exp(x - m) so far
    *,
    columns: int,
) -> None:
    second_pass, j = pl.program_id(1), pl.program_id(2)
    x = row_blocks.inside(x_ref[...].astype(jnp.float32), j, columns, -jnp.inf)

    @pl.when((second_pass == 0) & (j == 0))
    def _nothing_yet():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)

    @pl.when(second_pass == 0)
    def _online():  # the sum so far was taken beside the old maximum: scale it to the new one
        m = jnp.maximum(m_ref[...], jnp.max(x, axis=-1, keepdims=True))
        beside = jnp.where(m == -jnp.inf, 0.0, m)  # -inf so far: exp(-inf - 0) is 0, exp(-inf - -inf) would be NaN
        l_ref[...] = l_ref[...] * jnp.exp(m_ref[...] - beside) + jnp.sum(jnp.exp(x - beside), axis=-1, keepdims=True)
        m_ref[...] = m

    @pl.when(second_pass == 1)
    def _result():  # a row that is -inf throughout becomes NaN here, as in jax.nn.softmax
        o_ref[...] = (jnp.exp(x - m_ref[...]) / l_ref[...]).astype(o_ref.dtype)


def softmax(
    x: Float[Array, "*shape"], axis: int = -1, *, blocks: Blocks | None = None, layout: Layout = None
) -> Float[Array, "*shape"]:
    """Softmax over one axis of an f32 or bf16 array, differentiable; as ``jax.nn.softmax``, infinities too.

    Runs the kernel on a TPU and plain JAX elsewhere. ``blocks`` None: chosen by ``blocks_for``. ``layout`` says how x
    lies on a mesh with Auto axes; where ``axis`` is cut among devices plain JAX runs. Along an axis that is not the
    last 128 columns go by side by side: where fewer lie behind it, the rest of the lanes is idle.
    Raises ValueError for another dtype, where x has no such axis, and for blocks that need more VMEM than there is.
    """
    (x,) = arguments.arrays("softmax", arguments.FLOATS, x=x)
    row_blocks.check_rows("softmax", x)
    legal.check_kind("softmax", blocks, Blocks)
    axis = axes.one("softmax", x, axis)
    (x,), cuts = sharding.ready("softmax", _rule(1, x, axis), (x,), layout)
    return _softmax(x, axis, blocks, cuts)


def blocks_for(x: Float[Described, "*shape"], axis: int = -1) -> Blocks:
    """The blocks that ``softmax`` chooses, on the chip traced for: whole rows, or columns, wherever they fit."""
    return _blocks_for(x, axes.one("blocks_for", x, axis), operands=2)


def _blocks_for(x: Described, axis: int, operands: int) -> Blocks:
    if not _by_rows(x, axis, operands):
        return _blocks_of_columns(axes.seen_as(planned(x.shape), axis), _per_element(x.dtype.itemsize, operands))
    x = jax.ShapeDtypeStruct(_as_rows(planned(x.shape), axis), x.dtype)
    if x.shape[-1] > row_blocks.longest_row(x.dtype.itemsize, operands, _TEMPORARIES):
        return Blocks(bm=16, bn=16384)
    return Blocks(bm=row_blocks.rows_for(x, operands, _TEMPORARIES))


_TEMPORARIES = 2  # f32 values of a block's size that live while it is computed


def _blocks_of_columns(view: tuple[int, ...], per_element: int) -> Blocks:
    """About 2 MiB in f32, less where the array is small; as many columns as can be, for their copies are longer."""
    _, size, *deep, columns = view
    elements = min(2**19, max(2**17, math.prod(view) // 4), chip.usable_vmem_bytes() // per_element)
    least = size * min(legal.SUBLANES, *deep) if deep else size  # rows
    bn = max(1, elements // least // legal.LANES) * legal.LANES
    bn = min(bn, pl.cdiv(columns, legal.LANES) * legal.LANES)
    bm = max(least, min(math.prod(view[:-1]), elements // bn))
    return Blocks(bm=pl.cdiv(bm, legal.SUBLANES) * legal.SUBLANES, bn=bn)


def _by_rows(x: Described, axis: int, operands: int) -> bool:
    """Whether the axis is made the last, if it is not: it is better there, or its columns do not fit in VMEM."""
    shape = planned(x.shape)
    if axes.is_better_last(shape, axis):
        return True
    view = axes.seen_as(shape, axis)
    smallest = axes.block(view, view[1], 1, legal.LANES)
    return _vmem_bytes(smallest, x.dtype.itemsize, operands) > chip.usable_vmem_bytes()


def _as_rows(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return *shape[:axis], *shape[axis + 1 :], shape[axis]


def _vmem_bytes(block: tuple[int, ...], itemsize: int, operands: int) -> int:
    *outer, rows, columns = block
    padded = pl.cdiv(rows, legal.SUBLANES) * legal.SUBLANES * pl.cdiv(columns, legal.LANES) * legal.LANES
    return math.prod(outer) * padded * _per_element(itemsize, operands)


def _per_element(itemsize: int, operands: int) -> int:
    return 2 * operands * itemsize + 4 * _TEMPORARIES


def _rule(operands: int, x: Array, axis: int) -> str:
    letters = mesh_rules.letters(x.ndim).split()
    letters[axis] = "N"
    return ", ".join([" ".join(letters)] * operands) + " -> " + " ".join(letters)


@functools.partial(differentiable, settings=3)
def _softmax(x, axis, blocks, cuts):
    kernels = _Kernels(whole=_whole_kernel, columns=_columns_kernel, statistics=2)
    by_rows = fixed(portable.by_rows, kernel=fixed(_whole_kernel, axis=1), outside=-math.inf, name="softmax")
    roads = {"gpu": fixed(norm_gpu.on_gpu, op=norm_gpu.softmax), "portable": by_rows}
    return _call("softmax", kernels, reference, axis, blocks, cuts, x, **roads)


def _forward(x, *how):
    y = _softmax(x, *how)
    return y, y


def _backward(axis, blocks, cuts, y, g):
    kernels = _Kernels(whole=softmax_backward.whole_kernel, columns=softmax_backward.columns_kernel, statistics=1)
    body, name = fixed(softmax_backward.whole_kernel, axis=1), "gradient of softmax"
    by_rows = fixed(portable.by_rows, kernel=body, arrays=2, name=name)
    return (_call(name, kernels, softmax_backward.plain, axis, blocks, cuts, y, g, portable=by_rows),)


_softmax.defvjp(_forward, _backward)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Kernels:
    """The same for blocks with all of the axis and for pieces of rows, which keeps some statistics of each row."""

    whole: Callable
    columns: Callable
    statistics: int


def _call(op: str, kernels: _Kernels, plain: Callable, axis: int, blocks, cuts, *operands: Array, **roads) -> Array:
    """``roads``: how GPUs go along the last axis; along another they run plain JAX."""
    x = operands[0]
    if not x.size:
        return x
    _chosen(axis, blocks, *operands)
    last = axis - x.ndim  # from the end: there may come axes in front
    on_tpu, plain = fixed(_on_tpu, kernels=kernels, axis=last, blocks=blocks), fixed(plain, axis=last)
    leading = () if blocks else tuple(range(len(operands)))
    rule, roads = _rule(len(operands), x, axis), roads if last == -1 else {}
    launch = Op(name=op, rule=rule, tpu=on_tpu, plain=plain, leading=leading, **roads)
    return launch(*operands, cuts=cuts)


def _chosen(axis: int, blocks: Blocks | None, *operands: Array) -> tuple[Blocks, int]:
    """The blocks, and the bytes of VMEM that they take."""
    x, arrays = operands[0], len(operands) + 1
    blocks = blocks or _blocks_for(x, axis, arrays)
    if _by_rows(x, axis, arrays):
        x = jax.ShapeDtypeStruct(_as_rows(planned(x.shape), axis), x.dtype)
        needed = row_blocks.needed(blocks.bm, blocks.bn or x.shape[-1], x, arrays, _TEMPORARIES)
    else:
        needed = _vmem_bytes(_block_of_columns(x.shape, axis, blocks), x.dtype.itemsize, arrays)
    check_fits(blocks, needed)
    return blocks, needed


def _block_of_columns(shape: tuple[int, ...], axis: int, blocks: Blocks) -> tuple[int, ...]:
    view = axes.seen_as(planned(shape), axis)
    return axes.block(view, view[1], blocks.bm, blocks.bn or view[-1])


def _on_tpu(*operands: Array, kernels: _Kernels, axis: int, blocks: Blocks | None) -> Array:
    x = operands[0]
    axis %= x.ndim
    if blocks is None and _as_it_lies(x, axis, len(operands) + 1):
        return _on_tpu(*(operand.T for operand in operands), kernels=kernels, axis=1 - axis, blocks=None).T
    if axis == x.ndim - 1:
        return _along_rows(*operands, kernels=kernels, blocks=blocks)
    if _by_rows(x, axis, len(operands) + 1):
        turned = (jnp.moveaxis(operand, axis, -1) for operand in operands)
        return jnp.moveaxis(_along_rows(*turned, kernels=kernels, blocks=blocks), -1, axis)
    blocks, needed = _chosen(axis, blocks, *operands)
    view, block = axes.seen_as(x.shape, axis), _block_of_columns(x.shape, axis, blocks)
    steps = [pl.cdiv(size, each) for size, each in zip(view, block, strict=True)]
    grid = (steps[0], *steps[2:])  # all of the axis is in a block
    spec = pl.BlockSpec(block, lambda a, *at: (a, 0, *at))
    return pl.pallas_call(
        functools.partial(kernels.whole, axis=1),
        out_shape=out_type(x, view, x.dtype),
        grid=grid,
        in_specs=[spec] * len(operands),
        out_specs=spec,
        compiler_params=compiler_params(needed, *["parallel"] * len(grid)),
    )(*(operand.reshape(view) for operand in operands)).reshape(x.shape)


def _as_it_lies(x: Described, axis: int, operands: int) -> bool:
    """Whether x is taken by its transpose, as XLA stores it: rows of 64 numbers would fill half of the lanes, too."""
    if not is_by_columns(x.shape):
        return False
    return axis == 0 or not _by_rows(jax.ShapeDtypeStruct(x.shape[::-1], x.dtype), 0, operands)


def _along_rows(*operands: Array, kernels: _Kernels, blocks: Blocks | None) -> Array:
    x = operands[0]
    blocks, needed = _chosen(x.ndim - 1, blocks, *operands)
    flat = (math.prod(x.shape[:-1]), x.shape[-1])
    bm, bn = cut(blocks.bm, flat[0]), min(flat[1], blocks.bn or flat[1])
    if blocks.bn is None:
        read = written = pl.BlockSpec((bm, bn), lambda i: (i, 0))
        kernel, statistics = functools.partial(kernels.whole, axis=1), 0
        grid, semantics = (pl.cdiv(flat[0], bm),), ("parallel",)
    else:
        read = pl.BlockSpec((bm, bn), lambda i, second_pass, j: (i, j))
        written = pl.BlockSpec((bm, bn), lambda i, second_pass, j: (i, j * second_pass))
        kernel, statistics = functools.partial(kernels.columns, columns=flat[1]), kernels.statistics
        grid, semantics = (pl.cdiv(flat[0], bm), 2, pl.cdiv(flat[1], bn)), ("parallel", "arbitrary", "arbitrary")
    out = pl.pallas_call(
        kernel,
        out_shape=out_type(x, flat, x.dtype),
        grid=grid,
        in_specs=[read] * len(operands),
        out_specs=written,
        scratch_shapes=[pltpu.VMEM((bm, 1), jnp.float32)] * statistics,
        compiler_params=compiler_params(needed, *semantics),
    )(*(operand.reshape(flat) for operand in operands))
    return out.reshape(x.shape)
