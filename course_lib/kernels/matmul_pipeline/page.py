"""The last part of the page that ``python -m course_lib.kernels matmul_pipeline`` prints, behind kernel.py.

Left to the library: checks of arguments, meshes, blocks for any shape, and a gradient without transposed copies.

The library computes the gradient by the kernel of ``matmul``, which takes operands stored transposed as they are.
"""

import functools

import jax
import jax.numpy as jnp
from jax import Array, lax

from course_lib.kernels.matmul.kernel import Blocks, gradient_products, reference
from course_lib.kernels.matmul_pipeline.kernel import launch


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def matmul_pipelined(x: Array, y: Array, blocks: Blocks | None = None, precision: str = "highest") -> Array:
    """Return ``x @ y`` for x (M, K) and y (K, N): the kernel on a TPU, plain JAX elsewhere; differentiable."""
    sizes = blocks and (blocks.bm, blocks.bk, blocks.bn)
    return _multiply(x, y, False, False, precision=precision, sizes=sizes)


def _multiply(x, y, transpose_x, transpose_y, _letters="mkn", *, precision, sizes=None):
    x, y = x.T if transpose_x else x, y.T if transpose_y else y
    (m, k), n, side = x.shape, y.shape[1], 512 if x.dtype == jnp.bfloat16 else 256

    def dividing(length, *wanted):  # the whole axis if none does
        return next((size for size in wanted if length % size == 0), length)

    bm, bk, bn = sizes or (dividing(m, side, 128), dividing(k, 2048, 1024, 512), dividing(n, side, 128))
    level = lax.Precision(precision) if x.dtype == jnp.float32 else None
    sizes = min(bm, m), min(bk, k), min(bn, n)
    on_tpu = functools.partial(launch, sizes=sizes, precision=level, vmem_limit_bytes=64 << 20)
    return lax.platform_dependent(x, y, tpu=on_tpu, default=reference)


matmul_pipelined.defvjp(
    lambda x, y, *how: (matmul_pipelined(x, y, *how), (x, y)),
    lambda _, precision, saved, g: gradient_products(*saved, g, functools.partial(_multiply, precision=precision)),
)
