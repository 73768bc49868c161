"""The last part of the page that ``python -m course_lib.kernels reduce`` prints, behind kernel.py.

Left to the library: checks of arguments, empty arrays, meshes, blocks for any shape, and reducing an axis between
others where it lies: here XLA moves it behind the others first.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax

from course_lib.kernels.common.along_axis import accumulator, whole
from course_lib.kernels.reduce.kernel import MAX, SUM, Axes, Blocks, launch


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 2, 3))
def _reduce(reduction, x, axis: Axes = None, blocks: Blocks | None = None):
    """Return the sum or maximum of x over ``axis``: one, several or all. The kernel on a TPU, plain JAX elsewhere."""
    plain = lambda x: reduction.along(x.astype(accumulator(x.dtype)), axis).astype(x.dtype)  # noqa: E731
    return lax.platform_dependent(x, tpu=functools.partial(_on_tpu, reduction, axis, blocks), default=plain)


def _backward(reduction, axis, blocks, saved, g):
    x, out = saved
    spread = lambda a: jnp.broadcast_to(a if axis is None else jnp.expand_dims(a, axis), x.shape)  # noqa: E731
    if reduction is SUM:
        return (spread(g),)
    chosen = (x == spread(out)).astype(g.dtype)  # equal maxima share the gradient
    return (chosen * spread(g / _reduce(SUM, chosen, axis, blocks)),)


_reduce.defvjp(lambda reduction, x, *how: (out := _reduce(reduction, x, *how), (x, out)), _backward)
sum_over, max_over = functools.partial(_reduce, SUM), functools.partial(_reduce, MAX)


def _on_tpu(reduction, axis, blocks, x):
    along = functools.partial(_along, reduction, blocks)
    axis = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axis = [each % x.ndim for each in axis]
    kept = [each for each in range(x.ndim) if each not in axis]
    size = math.prod(x.shape[each] for each in axis)
    if not kept:  # as a matrix, its longer side first
        matrix = x.reshape(-1, (x.shape or (1,))[-1])
        rows, columns = matrix.shape
        between = matrix if rows == 1 else along(matrix, 0 if rows >= columns else 1, accumulator(x.dtype))
        out = along(between, 1, x.dtype)
    elif max(axis) < min(kept):
        out = along(x.reshape(size, -1), 0, x.dtype)
    else:
        out = along(x.transpose(*kept, *axis).reshape(-1, size), 1, x.dtype)
    return out.reshape([x.shape[each] for each in kept])


def _along(reduction, blocks, x, axis, dtype):
    """Reduce x (M, N) along ``axis``, in blocks of about 1 MiB unless ``blocks`` says otherwise."""
    (rows, columns), bn = x.shape, min(2048, whole(x.shape[1], 128))
    bm, bn = (blocks.bm, blocks.bn) if blocks else (2**20 // x.dtype.itemsize // bn // 128 * 128, bn)
    if axis == 1 and rows == 1:
        block = 1, min(bm * bn, whole(columns, 1024))
    else:
        block = min(bm, rows if axis else whole(rows, 8)), min(bn, whole(columns, 128))
    return launch(x, reduction, axis, block, dtype, vmem_limit_bytes=32 << 20)
