"""The last part of the page that ``python -m course_lib.kernels linear_int8`` prints, behind kernel.py.

Left to the library: checks of arguments, meshes, blocks for any shape and chip, and kernels in the gradient.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import Array, lax

from course_lib.kernels.common.products import dot
from course_lib.kernels.linear_int8.kernel import gradients_int8, launch_int8, plain_int8, quantized
from course_lib.kernels.matmul.kernel import Blocks

quantize = quantized


def linear_int8(x: Array, q: Array, scale: Array, b: Array | None = None, *, activation=None, blocks=None) -> Array:
    """Return ``act(x @ (scale * q) + b)``: the kernel on a TPU, plain JAX elsewhere; differentiable but in q."""
    return _linear(x, q, scale, jnp.zeros(q.shape[1:], x.dtype) if b is None else b, activation or "none", blocks)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _linear(x, q, scale, b, activation, blocks: Blocks | None):
    m, (k, n) = math.prod(x.shape[:-1]), q.shape
    bm, bk, bn = (blocks.bm, blocks.bk, blocks.bn) if blocks else _CHOSEN.get((m, k, n), (512, 1024, 512))
    how = {"activation": activation, "precision": lax.Precision.HIGHEST if x.dtype == jnp.float32 else None}
    sizes = min(bm, m), min(bk, k), min(bn, n)
    on_tpu = functools.partial(launch_int8, sizes=sizes, vmem_limit_bytes=64 << 20, **how)
    return lax.platform_dependent(x, q, scale, b, tpu=on_tpu, default=functools.partial(plain_int8, **how))


def _backward(activation, _, saved, g):
    precision = lax.Precision.HIGHEST if g.dtype == jnp.float32 else None
    dx, dscale, db = gradients_int8(*saved, g, activation=activation, precision=precision, product=dot)
    return dx, None, dscale, db.astype(saved[3].dtype)


_linear.defvjp(lambda x, q, scale, b, *how: (_linear(x, q, scale, b, *how), (x, q, scale, b)), _backward)

_CHOSEN = {(8, 4096, 14336): (8, 4096, 1024), (4096, 1024, 4096): (1024, 1024, 1024)}  # (M, K, N), of bf16 on a v5e
