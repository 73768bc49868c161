"""The last part of the page that ``python -m course_lib.kernels elementwise`` prints, behind kernel.py.

Left to the library: checks of arguments, empty arrays, meshes, GPUs, and blocks for any shape and layout.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental import pallas as pl

from course_lib.kernels.elementwise.kernel import KERNELS, Blocks, cast_reference, launch


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def add(x: Array, y: Array, blocks: Blocks | None = None) -> Array:
    """Add two arrays of one shape and dtype: the kernel on a TPU, plain JAX elsewhere; differentiable."""
    return by_blocks(KERNELS["add"], lax.add, x, y, blocks=blocks)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def subtract(x: Array, y: Array, blocks: Blocks | None = None) -> Array:
    """Subtract y from x; as ``add``."""
    return by_blocks(KERNELS["subtract"], lax.sub, x, y, blocks=blocks)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def multiply(x: Array, y: Array, blocks: Blocks | None = None) -> Array:
    """Multiply x by y, element by element; as ``add``."""
    return by_blocks(KERNELS["multiply"], lax.mul, x, y, blocks=blocks)


def cast(x: Array, dtype: jax.typing.DTypeLike, blocks: Blocks | None = None) -> Array:
    """Convert x to ``dtype``; differentiable if both are floats."""
    return x if x.dtype == dtype else _cast(x, x.dtype, jnp.dtype(dtype), blocks)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _cast(x, _, dtype, blocks):
    return by_blocks(KERNELS["cast"], functools.partial(cast_reference, dtype=dtype), x, dtype=dtype, blocks=blocks)


def _multiply_backward(blocks, saved, g):
    x, y = saved
    return multiply(g, y, blocks), multiply(g, x, blocks)


def _cast_backward(was, dtype, blocks, _, g):
    return (_cast(g, dtype, was, blocks) if jnp.issubdtype(dtype, jnp.floating) else None,)


add.defvjp(lambda x, y, blocks: (add(x, y, blocks), None), lambda blocks, _, g: (g, g))
subtract.defvjp(lambda x, y, blocks: (subtract(x, y, blocks), None), lambda blocks, _, g: (g, -g))
multiply.defvjp(lambda x, y, blocks: (multiply(x, y, blocks), (x, y)), _multiply_backward)
_cast.defvjp(lambda x, *how: (_cast(x, *how), None), _cast_backward)


def by_blocks(kernel, plain, *operands, dtype=None, blocks=None) -> Array:
    """Compute one array from ``operands`` of one shape: by ``kernel`` on a TPU, and by ``plain`` elsewhere."""
    x = operands[0]
    view, block = view_and_block(x, blocks, max(x.dtype.itemsize, jnp.dtype(dtype or x.dtype).itemsize))
    on_tpu = functools.partial(launch, kernel, view=view, block=block, dtype=dtype, vmem_limit_bytes=32 << 20)
    return lax.platform_dependent(*operands, tpu=on_tpu, default=plain)


def view_and_block(x, blocks, itemsize):
    """Return the shape that x is seen as, and that of its blocks: of about 1 MiB, unless ``blocks`` says otherwise."""
    columns = x.shape[-1] if x.ndim else 1
    bn = pl.cdiv(columns, 128 * pl.cdiv(columns, 2048)) * 128  # equal parts of up to 2048 columns
    bm = 2**20 // itemsize // bn // 32 * 32
    bm, bn = (blocks.bm, blocks.bn) if blocks else (bm, bn)
    if x.ndim == 1:
        return x.shape, (min(columns, bm * bn),)
    rows = math.prod(x.shape[:-1])
    return (rows, columns), (min(bm, rows), min(bn, columns))
