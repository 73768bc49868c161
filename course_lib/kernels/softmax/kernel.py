"""Softmax: ``o[i, j] = exp(x[i, j] - max_j x[i, j]) / sum_j exp(x[i, j] - max_j x[i, j])``, for f32 and bf16, in f32.

Cost   FLOPs 5 * M * N;  HBM bytes 2 * M * N * itemsize: x is read once (twice if its rows are cut), o written once
VMEM   bm * N * (4 * itemsize + 8): x and o, each held twice so that copies overlap work, and two f32 intermediates

An array of any rank is viewed as (M, N), N its last axis, and cut into blocks of bm whole rows. Rows too long for VMEM
are cut into pieces and read twice: first for the maximum and the sum of each row, then for the result. Along another
axis N the array is viewed as (A, N, C), and a block has all of N. The gradient is ``dx = o * (g - sum_j g * o)``.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Ref
from course_lib.kernels.common.legal import LANES, SUBLANES, check
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.row_blocks import inside


def reference(x: Float[Array, "*shape"], axis: int = -1) -> Float[Array, "*shape"]:
    """Return what ``softmax`` must compute: JAX's own in f32, rounded once to the dtype of x."""
    return jax.nn.softmax(x.astype(jnp.float32), axis=axis).astype(x.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes. They change the speed, not the result."""

    bm: int  # rows, a multiple of 8; the axes before the last are counted as one
    bn: int | None = None  # elements of the last axis, a multiple of 128; None: all of them

    def __post_init__(self):
        check(self, bm=SUBLANES, bn=LANES)


def _whole_kernel(x_ref: Float[Ref, "*block"], o_ref: Float[Ref, "*block"], *, axis: int) -> None:
    x = x_ref[...].astype(jnp.float32)
    p = jnp.exp(x - jnp.max(x, axis=axis, keepdims=True))
    o_ref[...] = (p / jnp.sum(p, axis=axis, keepdims=True)).astype(o_ref.dtype)


def _pieces_kernel(
    x_ref: Float[Ref, "bm bn"],  # block (i, j), in both passes
    o_ref: Float[Ref, "bm bn"],  # block (i, j) in the second pass; block (i, 0), not written yet, in the first
    m_ref: Float32[Ref, "bm 1"],  # scratch: the maximum of each row so far
    l_ref: Float32[Ref, "bm 1"],  # scratch: the sum of exp(x - m) so far
    *,
    columns: int,
) -> None:
    second_pass, j = pl.program_id(1), pl.program_id(2)
    x = inside(x_ref[...].astype(jnp.float32), j, columns, -jnp.inf)

    @pl.when((second_pass == 0) & (j == 0))
    def _nothing_yet():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)

    @pl.when(second_pass == 0)
    def _online():  # the sum so far is relative to the old maximum: scale it to the new one
        m = jnp.maximum(m_ref[...], jnp.max(x, axis=-1, keepdims=True))
        finite = jnp.where(m == -jnp.inf, 0.0, m)  # -inf so far: exp(-inf - 0) is 0, exp(-inf - -inf) would be NaN
        l_ref[...] = l_ref[...] * jnp.exp(m_ref[...] - finite) + jnp.sum(jnp.exp(x - finite), axis=-1, keepdims=True)
        m_ref[...] = m

    @pl.when(second_pass == 1)
    def _result():  # a row of nothing but -inf becomes NaN here, as in jax.nn.softmax
        o_ref[...] = (jnp.exp(x - m_ref[...]) / l_ref[...]).astype(o_ref.dtype)


def launch(kernels, *operands: Array, view, block, vmem_limit_bytes=None) -> Array:
    """Run ``kernels`` along axis 1 of ``view``: the first if a block has all of it, else the second on its pieces."""
    (whole, in_pieces, statistics), x = kernels, operands[0]  # statistics: how many values are kept per row
    outer, along, *behind = (pl.cdiv(size, length) for size, length in zip(view, block, strict=True))
    if along == 1:
        kernel, grid, scratch = functools.partial(whole, axis=1), (outer, *behind), []
        read = written = pl.BlockSpec(block, lambda i, *behind: (i, 0, *behind))
    else:
        kernel, grid = functools.partial(in_pieces, columns=view[1]), (outer, 2, along)
        scratch = [pltpu.VMEM((block[0], 1), jnp.float32)] * statistics
        read = pl.BlockSpec(block, lambda i, second_pass, j: (i, j))
        written = pl.BlockSpec(block, lambda i, second_pass, j: (i, j * second_pass))
    semantics = ["parallel"] * len(grid) if along == 1 else ["parallel", "arbitrary", "arbitrary"]
    return pl.pallas_call(
        kernel,
        out_shape=out_type(x, view, x.dtype),
        grid=grid,
        in_specs=[read] * len(operands),
        out_specs=written,
        scratch_shapes=scratch,
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics, vmem_limit_bytes=vmem_limit_bytes),
    )(*(operand.reshape(view) for operand in operands)).reshape(x.shape)


def gradient_reference(y: Float[Array, "*shape"], g: Float[Array, "*shape"], axis: int = -1) -> Float[Array, "*shape"]:
    """Return the gradient of x in plain JAX, given the softmax y and the gradient g of the result."""
    dtype, y, g = y.dtype, y.astype(jnp.float32), g.astype(jnp.float32)
    return (y * (g - jnp.sum(g * y, axis=axis, keepdims=True))).astype(dtype)


def _gradient_kernel(y_ref: Float[Ref, "*block"], g_ref: Float[Ref, "*block"], dx_ref: Float[Ref, "*block"], *, axis):
    y, g = y_ref[...].astype(jnp.float32), g_ref[...].astype(jnp.float32)
    dx_ref[...] = gradient_reference(y, g, axis).astype(dx_ref.dtype)


def _gradient_pieces_kernel(
    y_ref: Float[Ref, "bm bn"],  # blocks as those of _pieces_kernel
    g_ref: Float[Ref, "bm bn"],
    dx_ref: Float[Ref, "bm bn"],
    sum_ref: Float32[Ref, "bm 1"],  # scratch: the sum of g * y so far
    *,
    columns: int,
) -> None:
    second_pass, j = pl.program_id(1), pl.program_id(2)
    y, g = y_ref[...].astype(jnp.float32), g_ref[...].astype(jnp.float32)

    @pl.when((second_pass == 0) & (j == 0))
    def _zero():
        sum_ref[...] = jnp.zeros_like(sum_ref)

    @pl.when(second_pass == 0)
    def _sum():
        sum_ref[...] += jnp.sum(inside(g * y, j, columns, 0.0), axis=-1, keepdims=True)

    @pl.when(second_pass == 1)
    def _result():
        dx_ref[...] = (y * (g - sum_ref[...])).astype(dx_ref.dtype)


KERNELS = _whole_kernel, _pieces_kernel, 2
GRADIENT_KERNELS = _gradient_kernel, _gradient_pieces_kernel, 1
