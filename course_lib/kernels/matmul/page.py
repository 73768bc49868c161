"""Below: the op on one TPU, and plain JAX elsewhere. Left to the library: checks of arguments, operands stored
transposed, meshes, GPUs, and the choice of blocks for any shape and chip (``kernels.matmul.blocks_for``)."""

import functools

import jax
import jax.numpy as jnp
from jax import Array, lax

from course_lib.kernels.common.products import dot, product_dtype
from course_lib.kernels.matmul.kernel import Blocks, gradient_products, launch


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def matmul(x: Array, y: Array, blocks: Blocks | None = None, precision: str = "highest") -> Array:
    """Return ``x @ y`` for x (M, K) and y (K, N): the kernel on a TPU, plain JAX elsewhere; differentiable."""
    return _multiply(x, y, False, False, blocks=blocks, precision=precision)


def _multiply(x, y, transpose_x, transpose_y, letters="mkn", *, precision, blocks=None):
    turned = {"transpose_x": transpose_x, "transpose_y": transpose_y}
    turned["precision"] = lax.Precision(precision) if x.dtype == jnp.float32 else None
    m, k, n = *(x.shape[::-1] if transpose_x else x.shape), y.shape[0 if transpose_y else 1]
    blocks = blocks or Blocks(**dict(zip(("bm", "bk", "bn"), _CHOSEN.get((m, k, n), (512, 1024, 512)), strict=True)))
    sizes = min(blocks.bm, m), min(blocks.bk, k), min(blocks.bn, n)

    def plain(x, y):
        return dot(x, y, **turned).astype(product_dtype(x.dtype))

    on_tpu = functools.partial(launch, sizes=sizes, vmem_limit_bytes=100 << 20, **turned)
    return lax.platform_dependent(x, y, tpu=on_tpu, default=plain)


def _backward(blocks, precision, saved, g):
    return gradient_products(*saved, g, functools.partial(_multiply, precision=precision))


matmul.defvjp(lambda x, y, *how: (matmul(x, y, *how), (x, y)), _backward)

_CHOSEN = {}
