"""The last part of the page that ``python -m course_lib.kernels matmul`` prints, behind kernel.py.

Left to the library: checks of arguments, meshes, GPUs, ``matmul_transposed``, and blocks for any shape and chip.
"""

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


def _multiply(x, y, transpose_x, transpose_y, _axes=None, *, precision, blocks=None):
    (m, k), n = x.shape[::-1] if transpose_x else x.shape, y.shape[0 if transpose_y else 1]
    bm, bk, bn = (blocks.bm, blocks.bk, blocks.bn) if blocks else _CHOSEN.get((m, k, n, x.dtype.itemsize), _USUAL)
    how = {"transpose_x": transpose_x, "transpose_y": transpose_y}
    how["precision"] = lax.Precision(precision) if x.dtype == jnp.float32 else None
    on_tpu = functools.partial(launch, sizes=(min(bm, m), min(bk, k), min(bn, n)), vmem_limit_bytes=64 << 20, **how)
    plain = lambda x, y: dot(x, y, **how).astype(product_dtype(x.dtype))  # noqa: E731
    return lax.platform_dependent(x, y, tpu=on_tpu, default=plain)


matmul.defvjp(
    lambda x, y, *how: (matmul(x, y, *how), (x, y)),
    lambda _, precision, saved, g: gradient_products(*saved, g, functools.partial(_multiply, precision=precision)),
)

# (M, K, N, bytes of an element): (bm, bk, bn), as the library chooses them for a v5e.
_USUAL = (512, 1024, 512)
# fmt: off
_CHOSEN = {
    (2048, 2048, 2048, 2): (512, 2048, 512), (4096, 4096, 4096, 2): (512, 4096, 512),
    (8192, 8192, 8192, 2): (512, 8192, 256), (512, 8192, 2048, 2): (512, 2048, 512),
    (8192, 512, 8192, 2): (1024, 512, 2048), (1, 4096, 4096, 2): (1, 4096, 512), (8, 4096, 14336, 2): (8, 4096, 1024),
    (16, 8192, 1024, 2): (16, 1024, 1024), (2048, 4096, 4096, 2): (512, 4096, 512),
    (512, 768, 2304, 2): (512, 768, 384), (4096, 768, 3072, 2): (1024, 768, 768),
    (100, 768, 50257, 2): (100, 768, 2048), (256, 2048, 32000, 2): (256, 2048, 1024),
    (3152, 768, 3072, 2): (1056, 768, 768), (3136, 147, 96, 2): (1152, 147, 96), (777, 777, 777, 2): (160, 777, 777),
    (3000, 3000, 3000, 2): (752, 3000, 384), (1111, 2222, 3333, 2): (560, 2222, 512),
    (640, 1920, 1080, 2): (640, 1920, 384), (513, 1025, 2049, 2): (513, 1025, 384), (8, 5000, 777, 2): (8, 1024, 777),
    (777, 777, 777, 4): (392, 777, 128), (1000, 1000, 1000, 4): (200, 1000, 512),
}
# fmt: on
