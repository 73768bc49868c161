"""A linear layer whose weight is stored in int8: ``y = act(x @ (scale * q) + b)``, one scale per column of q.

Cost   FLOPs 2*M*N*K;  HBM bytes (M*K + M*N) * itemsize, and K*N*ceil(M/bm) for the weight: half as many as in bf16
VMEM   2 * (bm*bk + bm*bn) * itemsize + 2*bk*bn: the weight's blocks are bytes; and bk*bn * itemsize for one converted

A block of the weight is converted in VMEM right before the MXU multiplies it: a prologue. Every int8 value is a bf16
value, so nothing is rounded there. The scale, one value per column, is applied after the reduction: M*N
multiplications instead of K*N, and in f32. With few rows a layer only waits for its weights, and reads half the bytes.
"""

import functools
import math

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Int8, Ref
from course_lib.kernels.common.activations import apply, slope
from course_lib.kernels.common.layouts import as_rows, is_by_columns
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, zero_beyond


def reference(
    x: Float[Array, "M K"],
    q: Int8[Array, "K N"],
    scale: Float32[Array, " N"],
    b: Float[Array, " N"],
    *,
    activation: str | None = None,
) -> Float[Array, "M N"]:
    """Return what ``linear_int8`` must compute: product, scale, bias and activation in f32, rounded once."""
    product = jnp.dot(x, q.astype(x.dtype), precision="highest", preferred_element_type=jnp.float32)
    return apply(activation, product * scale + b.astype(jnp.float32)).astype(x.dtype)


def quantized(w: Float[Array, "K N"]) -> tuple[Int8[Array, "K N"], Float32[Array, " N"]]:
    """Return ``(q, scale)`` with w about ``q * scale``; the scale of a column with NaN or an infinity is NaN."""
    wide = w.astype(jnp.float32)
    largest = jnp.max(jnp.abs(wide), axis=0, initial=0)
    finite = jnp.isfinite(largest)
    scale = jnp.where(finite, jnp.where(largest > 0, largest / 127, 1), jnp.nan)
    return jnp.round(jnp.where(finite, wide / scale, 0)).astype(jnp.int8), scale


def _kernel(
    x_ref: Float[Ref, "bm bk"],  # block (i, k)
    q_ref: Int8[Ref, "_bk _bn"],  # block (k, j); (bn, bk) with transpose_q
    scale_ref: Float32[Ref, "1 bn"],
    b_ref: Float[Ref, "1 bn"],
    o_ref: Float[Ref, "bm bn"],  # block (i, j): stays put while k runs
    acc_ref: Float32[Ref, "bm bn"],
    *,
    size: int,  # of the reduction, which the last block may reach past
    activation: str,
    precision,
    transpose_q: bool,
) -> None:
    k, bk = pl.program_id(2), x_ref.shape[1]

    @pl.when(k == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x, w = x_ref[...], q_ref[...].astype(x_ref.dtype)
    if size % bk:
        x, w = zero_beyond(x, 1, size - k * bk), zero_beyond(w, int(transpose_q), size - k * bk)
    acc_ref[...] += dot(x, w, transpose_y=transpose_q, precision=precision)

    @pl.when(k == pl.num_programs(2) - 1)
    def _store():
        z = acc_ref[...] * scale_ref[...] + b_ref[...].astype(jnp.float32)
        o_ref[...] = apply(activation, z).astype(o_ref.dtype)


def launch_int8(
    x, q, scale, b, sizes, *, activation, precision=None, vmem_limit_bytes=None
) -> Float[Array, "*batch N"]:
    """Run the kernel on one TPU with blocks of ``sizes`` (bm, bk, bn), none larger than x, seen as a matrix, and q."""
    m, (k, n) = math.prod(x.shape[:-1]), q.shape
    bm, bk, bn = sizes
    column = pl.BlockSpec((1, bn), lambda i, j, k: (0, j))
    if transpose_q := is_by_columns(q.shape):  # XLA stores q column by column: the view of its transpose is free
        q, q_spec = q.T, pl.BlockSpec((bn, bk), lambda i, j, k: (j, k))
    else:
        q_spec = pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))
    out = pl.pallas_call(
        functools.partial(_kernel, activation=activation, precision=precision, size=k, transpose_q=transpose_q),
        out_shape=out_type(x, (m, n), x.dtype),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(k, bk)),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), q_spec, column, column],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"), vmem_limit_bytes=vmem_limit_bytes
        ),
        name="linear_int8",
    )(as_rows(x), q, scale.reshape(1, n), b.reshape(1, n))
    return out.reshape(*x.shape[:-1], n)


def plain_int8(x, q, scale, b, *, activation, precision=None) -> Float[Array, "*batch N"]:
    """Return the layer by plain JAX."""
    z = dot(as_rows(x), q.astype(x.dtype), precision=precision) * scale + b.astype(jnp.float32)
    return apply(activation, z).astype(x.dtype).reshape(*x.shape[:-1], q.shape[1])


def gradients_int8(x, q, scale, b, g, *, activation, precision, product) -> tuple[Array, Array, Array]:
    """Return dx, dscale and db, with the weight converted in HBM: whoever trains weights keeps them wide anyway."""
    wide, rows = q.astype(x.dtype), as_rows(x)
    xq = product(rows, wide, precision=precision).astype(x.dtype).astype(jnp.float32)
    dz = as_rows(g).astype(jnp.float32) * slope(activation, xq * scale + b.astype(jnp.float32))
    dx = product((dz * scale).astype(x.dtype), wide, transpose_y=True, precision=precision).astype(x.dtype)
    return dx.reshape(x.shape), jnp.sum(dz * xq, axis=0), jnp.sum(dz, axis=0)
