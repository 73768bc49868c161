"""The last part of the page that ``python -m course_lib.kernels scale_add`` prints, behind kernel.py.

Left to the library: checks of arguments, empty arrays, meshes, and blocks for any shape and layout.
"""

import functools

import jax
import jax.numpy as jnp
from jax import Array, lax

from course_lib.kernels.common.along_axis import accumulator
from course_lib.kernels.elementwise.kernel import Blocks
from course_lib.kernels.elementwise.page import view_and_block
from course_lib.kernels.scale_add.kernel import gradient_reference, launch, launch_gradient, reference


def scale_add(a: Array | float, x: Array, y: Array, blocks: Blocks | None = None) -> Array:
    """Return ``a * x + y``: the kernel on a TPU, plain JAX elsewhere; differentiable by all three."""
    return _scale_add(jnp.asarray(a, accumulator(x.dtype)), x, y, blocks)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _scale_add(a, x, y, blocks):
    return _run(launch, reference, blocks, a, x, y)


def _run(run, plain, blocks, *operands):
    view, block = view_and_block(operands[1], blocks, operands[1].dtype.itemsize)
    on_tpu = functools.partial(run, view=view, block=block, vmem_limit_bytes=32 << 20)
    return lax.platform_dependent(*operands, tpu=on_tpu, default=plain)


def _backward(blocks, saved, g):
    a, x = saved
    return *_run(launch_gradient, gradient_reference, blocks, a, g, x), g


_scale_add.defvjp(lambda a, x, y, blocks: (_scale_add(a, x, y, blocks), (a, x)), _backward)
