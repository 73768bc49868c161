"""A linear layer of bf16 on GPUs, in one kernel; and its gradient. It computes what ``linear.reference`` does.

    forwards   z = x @ w + b, y = act(z)
    backwards  dz = g * act'(z),  dx = dz @ w.T,  dw = x.T @ dz,  db = sum of the rows of dz

Cost   FLOPs 2*M*N*K forwards, 4*M*N*K backwards; bytes as of ``matmul_gpu``, M*N * 2 more where z is saved; backwards
       those of two products, and 6*M*N for dz
SMEM, registers   as of ``matmul_gpu`` on Hopper GPUs, whose ring this is; as of ``matmul_portable`` on older ones

Bias and activation are applied in f32 to a piece of the product that is still in registers. Backwards the products are
kernels, which read w and x transposed from SMEM; dz and db are a pass over the arrays, which XLA makes one of.
"""

import functools
from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, BFloat16, Float32
from course_lib.kernels import activations
from course_lib.kernels.matmul import mosaic_gpu as matmul_gpu


def forward(
    x: BFloat16[Array, "M K"],
    w: BFloat16[Array, "K N"],
    b: BFloat16[Array, " N"],
    *,
    activation: str | None = None,
    save: bool = False,
    multiply: Callable = matmul_gpu.product,
    **how,
) -> tuple[BFloat16[Array, "M N"], ...]:
    """Return (y,), or (y, z) if z is to be ``save``d for the gradient.

    ``multiply`` is ``matmul_gpu.product`` or ``matmul_portable.product``, or either's ``product_here``, and ``how`` its
    blocks and the like.
    """
    finish = functools.partial(_bias_and_activation, activation=activation, save=save)
    return multiply(x, w, b, finish=finish, results=1 + save, name="linear", **how)


def on_gpu(x: Array, w: Array, b: Array, **how) -> tuple[Array, ...]:
    """Run ``forward`` on x of any number of axes. Raises ``chip.NoKernel`` if ``multiply`` does."""
    return tuple(out.reshape(*x.shape[:-1], -1) for out in forward(_rows(x), w, b, **how))


def gradients_on_gpu(x: Array, w: Array, g: Array, *z: Array, want_dx: bool, **how) -> tuple[Array, ...]:
    """Return ``gradients`` of arrays of any number of axes, without dx if it is not wanted; raises as ``on_gpu``."""
    rows = _rows(x), w, _rows(g), (_rows(z[0]) if z else None)
    dx, dw, db = gradients(*rows, want_dx=want_dx, **how)
    return (dx.reshape(x.shape), dw, db) if want_dx else (dw, db)


def _rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _bias_and_activation(
    sums: Float32[Array, "rows piece"], b: BFloat16[Array, " piece"], *, activation: str | None, save: bool
) -> tuple[Float32[Array, "rows piece"], ...]:
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
    multiply: Callable = matmul_gpu.product,
    **how,
) -> tuple[BFloat16[Array, "M K"] | None, BFloat16[Array, "K N"], Float32[Array, " N"]]:
    """Return dx (None if it is not wanted), dw and db, given g, the cotangent of y. ``z`` None: there is no activation.

    ``multiply`` and ``how`` as in ``forward``.
    """
    dz = g
    if z is not None:
        dz = (g.astype(jnp.float32) * activations.slope(activation, z.astype(jnp.float32))).astype(g.dtype)
    (dw,) = multiply(x, dz, transpose_x=True, name="linear_dw", **how)
    dx = None
    if want_dx:
        (dx,) = multiply(dz, w, transpose_y=True, name="linear_dx", **how)
    return dx, dw, jnp.sum(dz.astype(jnp.float32), axis=0)
