"""The activations for callers: arguments checked, on meshes, differentiable, and plain JAX where there is no TPU."""

import functools

from course_lib.arrays import Array, Described, Float, Float32
from course_lib.kernels.activations.kernel import KERNELS, activated, pulled_back
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.common.activations import named
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.elementwise.blocks import blocks_of
from course_lib.kernels.elementwise.kernel import Blocks
from course_lib.kernels.elementwise.op import by_blocks, rule


def relu(x: Float[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None) -> Float[Array, "*shape"]:
    """Return ``max(x, 0)`` for an array of any shape, f32 or bf16; differentiable, with slope 0 at 0.

    Computed in f32 and rounded once, by the kernel on a TPU and by plain JAX elsewhere. ``layout`` says how x lies on a
    mesh with Auto axes. Raises ValueError if ``x`` is not of floats, or the blocks need more VMEM than there is.
    """
    return _activation("relu", x, blocks, layout)


def gelu(x: Float[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None) -> Float[Array, "*shape"]:
    """Return ``x * Phi(x)``, which is ``jax.nn.gelu(x, approximate=False)``; as ``relu``."""
    return _activation("gelu", x, blocks, layout)


def gelu_tanh(
    x: Float[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None
) -> Float[Array, "*shape"]:
    """Return ``gelu`` by way of tanh, which is ``jax.nn.gelu(x)``; as ``relu``."""
    return _activation("gelu_tanh", x, blocks, layout)


def silu(x: Float[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None) -> Float[Array, "*shape"]:
    """Return ``x * sigmoid(x)``; as ``relu``."""
    return _activation("silu", x, blocks, layout)


def apply(name: str | None, z: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Apply the activation called ``name`` ("relu", "gelu", "gelu_tanh", "silu", "none" or None) to ``z``, in f32.

    It is plain jnp that lowers inside a Pallas TPU kernel and outside. Raises ValueError if the name is unknown.
    """
    return named(name).apply(z)


def slope(name: str | None, z: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Return the derivative of ``apply(name, z)`` by ``z``; as ``apply``."""
    return named(name).slope(z)


def blocks_for(x: Float[Described, "*shape"]) -> Blocks:
    """Return the blocks that every activation chooses for x; right for every chip."""
    return blocks_of(x.shape, x.dtype.itemsize)


def _activation(name, x, blocks, layout):
    (x,) = arguments.arrays(name, arguments.FLOATS, x=x)
    legal.check_kind(name, blocks, Blocks)
    (x,), cuts = sharding.ready(name, rule(1, x.ndim), (x,), layout)
    return _differentiable(x, name, blocks, cuts)


@functools.partial(differentiable, settings=3)
def _differentiable(x, name, blocks, cuts):
    kernel, plain = fixed(KERNELS[0], name=name), fixed(activated, name=name)
    return by_blocks(name, kernel, plain, x, blocks=blocks, cuts=cuts)


def _forward(x, name, blocks, cuts):
    return _differentiable(x, name, blocks, cuts), x


def pull_back(
    name: str | None,
    g: Float[Array, "*shape"],
    x: Float[Array, "*shape"],
    *,
    blocks: Blocks | None = None,
    cuts: mesh_rules.Cuts = None,
) -> Float[Array, "*shape"]:
    """Return the gradient of x for the gradient g of the activation called ``name``: g times its slope, by a kernel."""
    kernel, plain = (fixed(fn, name=name or "none") for fn in (KERNELS[1], pulled_back))
    return by_blocks(f"gradient of {name}", kernel, plain, g, x, blocks=blocks, cuts=cuts)


def _backward(name, blocks, cuts, x, g):
    return (pull_back(name, g, x, blocks=blocks, cuts=cuts),)


_differentiable.defvjp(_forward, _backward)
