"""A linear layer of bf16 on Hopper GPUs, in one kernel; and its gradient. It computes what ``linear.reference`` does.

    forwards   z = x @ w + b, y = act(z)
    backwards  dz = g * act'(z),  dx = dz @ w.T,  dw = x.T @ dz,  db = sum of the rows of dz

Cost   FLOPs 2*M*N*K forwards, 4*M*N*K backwards; bytes as of ``matmul_gpu``, M*N * 2 more where z is saved; backwards
       those of two products, and 6*M*N for dz
SMEM, registers   as of ``matmul_gpu``, whose ring this is

Bias and activation are applied in f32 to a piece of the product that is still in registers. Backwards the products are
kernels, which read w and x transposed from SMEM; dz and db are a pass over the arrays, which XLA makes one of.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu

from course_lib.arrays import Array, BFloat16, Float32
from course_lib.kernels import activations, matmul_gpu, platforms
from course_lib.kernels.matmul_gpu import Blocks


def forward(
    x: BFloat16[Array, "M K"],
    w: BFloat16[Array, "K N"],
    b: BFloat16[Array, " N"],
    *,
    activation: str | None = None,
    save: bool = False,
    blocks: Blocks | None = None,
    sms: int | None = None,
    interpret: plgpu.InterpretGPUParams | None = None,
) -> tuple[BFloat16[Array, "M N"], ...]:
    """(y,), or (y, z) where z is to be ``save``d for the gradient."""
    finish = functools.partial(_bias_and_activation, activation=activation, save=save)
    where = {"blocks": blocks, "sms": sms, "interpret": interpret}
    return matmul_gpu.product(x, w, b, finish=finish, results=1 + save, name="linear", **where)


def on_gpu(x: Array, w: Array, b: Array, *, activation: str, save: bool) -> tuple[Array, ...]:
    """``forward`` for x of any number of axes. Raises ``platforms.NoKernel`` where this kernel cannot do it."""
    if why := matmul_gpu.unfit(rows := _rows(x), w):
        raise platforms.NoKernel(why)
    return tuple(out.reshape(*x.shape[:-1], -1) for out in forward(rows, w, b, activation=activation, save=save))


def gradients_on_gpu(x: Array, w: Array, g: Array, *z: Array, activation: str, want_dx: bool) -> tuple[Array, ...]:
    """``gradients`` of arrays of any number of axes, without dx where it is not wanted; raises as ``on_gpu``."""
    if why := matmul_gpu.unfit(_rows(x), _rows(g)):
        raise platforms.NoKernel(why)
    rows = _rows(x), w, _rows(g), (_rows(z[0]) if z else None)
    dx, dw, db = gradients(*rows, activation=activation, want_dx=want_dx)
    return (dx.reshape(x.shape), dw, db) if want_dx else (dw, db)


def _rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _bias_and_activation(
    sums: Float32[Array, "64 piece"], b: BFloat16[Array, " piece"], *, activation: str | None, save: bool
) -> tuple[Float32[Array, "64 piece"], ...]:
    z = sums + lax.broadcast_in_dim(b.astype(jnp.float32), sums.shape, (1,))
    y = activations.apply(activation, z)
    return (y, z) if save else (y,)


def gradients(
    x: BFloat16[Array, "M K"],
    w: BFloat16[Array, "K N"],
    g: BFloat16[Array, "M N"],
    z: BFloat16[Array, "M N"] | None,
    *,
    activation: str | None = None,
    want_dx: bool = True,
    blocks: Blocks | None = None,
    sms: int | None = None,
    interpret: plgpu.InterpretGPUParams | None = None,
) -> tuple[BFloat16[Array, "M K"] | None, BFloat16[Array, "K N"], Float32[Array, " N"]]:
    """dx (None where it is not wanted), dw and db, for g, the cotangent of y. ``z`` None: there is no activation."""
    where = {"blocks": blocks, "sms": sms, "interpret": interpret}
    dz = g
    if z is not None:
        dz = (g.astype(jnp.float32) * activations.slope(activation, z.astype(jnp.float32))).astype(g.dtype)
    (dw,) = matmul_gpu.product(x, dz, transpose_x=True, name="linear_dw", **where)
    dx = None
    if want_dx:
        (dx,) = matmul_gpu.product(dz, w, transpose_y=True, name="linear_dx", **where)
    return dx, dw, jnp.sum(dz.astype(jnp.float32), axis=0)
