"""Softmax over the last axis: ``o[i, j] = exp(x[i, j] - max_j x[i, j]) / sum_j exp(x[i, j] - max_j x[i, j])``.

Cost   FLOPs 5 * M * N;  HBM bytes 2 * M * N * itemsize: x read once, o written once
VMEM   bm * N * (4 * itemsize + 8): x and o, each held twice so that copies overlap work, and f32 values between

An array of any rank is seen as (M, N), N its last axis, and cut into blocks of bm whole rows. Rows too long for that
are cut into bn columns and x is read twice: once for each row's maximum and sum, once for the result. Then
HBM bytes are 3 * M * N * itemsize, and VMEM bm * bn * (4 * itemsize + 8). Arithmetic is in f32 whatever x is.
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
from course_lib.kernels import legal, norm_gpu, row_blocks, rules, sharding, softmax_backward
from course_lib.kernels.compiler_params import check_fits, compiler_params
from course_lib.kernels.derivatives import differentiable
from course_lib.kernels.launch import Op, fixed
from course_lib.kernels.rules import Layout


def reference(x: Float[Array, "*shape N"]) -> Float[Array, "*shape N"]:
    """What ``softmax`` must compute: JAX's own in f32, rounded once to the dtype of x."""
    return jax.nn.softmax(x.astype(jnp.float32), axis=-1).astype(x.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes: rows, and columns. They never change the result, only the speed.

    ``bn=None`` is a block of whole rows, and x is read once. Legal: bm a multiple of 8, bn a multiple of 128.
    """

    bm: int
    bn: int | None = None

    def __post_init__(self):
        legal.check(self, bm=legal.SUBLANES, bn=legal.LANES)


def _rows_kernel(x_ref: Float[Ref, "bm N"], o_ref: Float[Ref, "bm N"]) -> None:
    x = x_ref[...].astype(jnp.float32)
    p = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
    o_ref[...] = (p / jnp.sum(p, axis=-1, keepdims=True)).astype(o_ref.dtype)


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
    x: Float[Array, "*shape N"], *, blocks: Blocks | None = None, layout: Layout = None
) -> Float[Array, "*shape N"]:
    """Softmax over the last axis of an f32 or bf16 array, differentiable; as ``jax.nn.softmax``, infinities too.

    Runs the kernel on a TPU and plain JAX elsewhere. ``blocks`` None: chosen by ``blocks_for``. ``layout`` says how x
    lies on a mesh with Auto axes; rows that are cut among devices are left to plain JAX.
    Raises ValueError for another dtype, for an x without axes, and for blocks that need more VMEM than there is.
    """
    row_blocks.check_rows("softmax", x)
    (x,), cuts = sharding.ready("softmax", _rule(1, x), (x,), layout)
    return _softmax(x, blocks, cuts)


def blocks_for(x: Float[Described, "*shape N"]) -> Blocks:
    """The blocks that ``softmax`` chooses, on the chip traced for: whole rows wherever 8 of them fit."""
    return _blocks_for(x, operands=2)


def _blocks_for(x: Described, operands: int) -> Blocks:
    if x.shape[-1] > row_blocks.longest_row(x.dtype.itemsize, operands, _TEMPORARIES):
        return Blocks(bm=16, bn=16384)
    return Blocks(bm=row_blocks.rows_for(x, operands, _TEMPORARIES))


_TEMPORARIES = 2  # f32 values of a block's size that live while it is computed


def _rule(operands: int, x: Array) -> str:
    return ", ".join([(axes := rules.letters(x.ndim - 1) + " N")] * operands) + " -> " + axes


@functools.partial(differentiable, settings=2)
def _softmax(x, blocks, cuts):
    kernels = _Kernels(rows=_rows_kernel, columns=_columns_kernel, statistics=2)
    on_gpu = fixed(norm_gpu.on_gpu, op=norm_gpu.softmax)
    return _call("softmax", kernels, reference, blocks, cuts, x, on_gpu=on_gpu)


def _forward(x, blocks, cuts):
    y = _softmax(x, blocks, cuts)
    return y, y


def _backward(blocks, cuts, y, g):
    kernels = _Kernels(rows=softmax_backward.rows_kernel, columns=softmax_backward.columns_kernel, statistics=1)
    return (_call("gradient of softmax", kernels, softmax_backward.plain, blocks, cuts, y, g),)


_softmax.defvjp(_forward, _backward)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Kernels:
    """The same for blocks of whole rows and for blocks of columns, which keeps some statistics of each row."""

    rows: Callable
    columns: Callable
    statistics: int


def _call(
    op: str, kernels: _Kernels, plain: Callable, blocks: Blocks | None, cuts, *operands: Array, on_gpu=None
) -> Array:
    x = operands[0]
    if not x.size:
        return x
    _chosen(blocks, *operands)
    on_tpu = fixed(_on_tpu, kernels=kernels, blocks=blocks)
    return Op(name=op, rule=_rule(len(operands), x), tpu=on_tpu, gpu=on_gpu, plain=plain)(*operands, cuts=cuts)


def _chosen(blocks: Blocks | None, *operands: Array) -> tuple[Blocks, int]:
    """The blocks, and the bytes of VMEM that they take."""
    x = operands[0]
    blocks = blocks or _blocks_for(x, len(operands) + 1)
    needed = row_blocks.needed(blocks.bm, blocks.bn or x.shape[-1], x, len(operands) + 1, _TEMPORARIES)
    check_fits(blocks, needed)
    return blocks, needed


def _on_tpu(*operands: Array, kernels: _Kernels, blocks: Blocks | None) -> Array:
    blocks, needed = _chosen(blocks, *operands)
    x = operands[0]
    flat = (math.prod(x.shape[:-1]), x.shape[-1])
    bm, bn = min(flat[0], blocks.bm), min(flat[1], blocks.bn or flat[1])
    if blocks.bn is None:
        read = written = pl.BlockSpec((bm, bn), lambda i: (i, 0))
        kernel, grid, semantics, statistics = kernels.rows, (pl.cdiv(flat[0], bm),), ("parallel",), 0
    else:
        read = pl.BlockSpec((bm, bn), lambda i, second_pass, j: (i, j))
        written = pl.BlockSpec((bm, bn), lambda i, second_pass, j: (i, j * second_pass))
        kernel, statistics = functools.partial(kernels.columns, columns=flat[1]), kernels.statistics
        grid, semantics = (pl.cdiv(flat[0], bm), 2, pl.cdiv(flat[1], bn)), ("parallel", "arbitrary", "arbitrary")
    out = pl.pallas_call(
        kernel,
        out_shape=sharding.result(x, flat, x.dtype),
        grid=grid,
        in_specs=[read] * len(operands),
        out_specs=written,
        scratch_shapes=[pltpu.VMEM((bm, 1), jnp.float32)] * statistics,
        compiler_params=compiler_params(needed, *semantics),
    )(*(operand.reshape(flat) for operand in operands))
    return out.reshape(x.shape)
