"""The last part of the page that ``python -m course_lib.kernels matmul_one_block`` prints, behind kernel.py.

Left to the library: checks of arguments and sizes, and meshes.
"""

import functools

import jax.numpy as jnp
from jax import Array, lax

from course_lib.kernels.matmul.kernel import reference
from course_lib.kernels.matmul_one_block.kernel import launch


def matmul_one_block(x: Array, y: Array, precision: str = "highest") -> Array:
    """Return ``x @ y`` for x (M, K) and y (K, N): the kernel on a TPU, plain JAX elsewhere."""
    level = lax.Precision(precision) if x.dtype == jnp.float32 else None
    needs = (x.size + y.size) * x.dtype.itemsize + 4 * x.shape[0] * y.shape[1]  # bytes
    on_tpu = functools.partial(launch, precision=level, vmem_limit_bytes=min(112 << 20, 2 * needs + (16 << 20)))
    return lax.platform_dependent(x, y, tpu=on_tpu, default=reference)
