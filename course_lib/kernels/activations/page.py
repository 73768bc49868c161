"""The last part of the page that ``python -m course_lib.kernels activations`` prints, behind kernel.py.

Left to the library: checks of arguments, empty arrays, meshes, GPUs, and blocks for any shape and layout.
"""

import functools

import jax

from course_lib.kernels.activations.kernel import KERNELS, activated, pulled_back
from course_lib.kernels.elementwise.kernel import Blocks
from course_lib.kernels.elementwise.page import by_blocks


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 2))
def _activation(name, x, blocks: Blocks | None = None):
    """Return an activation of x: the kernel on a TPU, plain JAX elsewhere; differentiable."""
    kernel, plain = (functools.partial(fn, name=name) for fn in (KERNELS[0], activated))
    return by_blocks(kernel, plain, x, blocks=blocks)


def _backward(name, blocks, x, g):
    kernel, plain = (functools.partial(fn, name=name) for fn in (KERNELS[1], pulled_back))
    return (by_blocks(kernel, plain, g, x, blocks=blocks),)


_activation.defvjp(lambda name, x, blocks: (_activation(name, x, blocks), x), _backward)
relu, gelu, gelu_tanh, silu = (functools.partial(_activation, each) for each in ("relu", "gelu", "gelu_tanh", "silu"))
