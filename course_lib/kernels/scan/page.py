"""The last part of the page that ``python -m course_lib.kernels scan`` prints, behind kernel.py.

Left to the library: checks, empty arrays, meshes, blocks for any shape, and kernels for vectors and other axes.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental import pallas as pl

from course_lib.kernels.scan.kernel import SQUARE, Blocks, launch, long, reference, turned


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def cumsum(x: Array, axis: int = -1, reverse: bool = False, blocks: Blocks | None = None) -> Array:
    """Return the cumulative sums of x along ``axis``: the kernel on a TPU, plain JAX elsewhere; differentiable."""
    plain = functools.partial(reference, axis=axis, reverse=reverse)
    return lax.platform_dependent(x, tpu=functools.partial(_on_tpu, axis, reverse, blocks), default=plain)


cumsum.defvjp(
    lambda x, *how: (cumsum(x, *how), None),
    lambda axis, reverse, blocks, _, g: (cumsum(g, axis, not reverse, blocks),),
)


def _on_tpu(axis, reverse, blocks, x):
    if axis % x.ndim < x.ndim - 1:  # XLA transposes the array, which the library avoids
        return jnp.moveaxis(_on_tpu(-1, reverse, blocks, jnp.moveaxis(x, axis, -1)), -1, axis)
    view = rows, columns = math.prod(x.shape[:-1]), x.shape[-1]
    if rows < 128 and not blocks:  # few rows, in blocks of up to 2**18 elements
        bm = min(8, rows)
        bn = SQUARE * max(1, min(2**18 // (bm * SQUARE), columns // (4 * SQUARE)))
        add_up, block, carry = long, (bm, bn), (bm, 128)
    else:
        bm, bn = (blocks.bm, blocks.bn) if blocks else (512, min(512, pl.cdiv(columns, 128) * 128))
        add_up, block, carry = turned, (bm, bn), (8, bm)
    return launch(x, add_up, view=view, axis=1, block=block, carry=carry, reverse=reverse, vmem_limit_bytes=32 << 20)
