"""Activations: plain functions of a block to be used inside any kernel, and kernels of their own.

    relu       max(z, 0)                                                     slope 0 at z = 0
    gelu       z * Phi(z), Phi the normal distribution's integral
    gelu_tanh  z / 2 * (1 + tanh(sqrt(2 / pi) * (z + 0.044715 * z**3)))      Hendrycks and Gimpel, arXiv 1606.08415
    silu       z / (1 + exp(-z))
    none       z

Cost   HBM bytes 2 * size * itemsize; of the gradient 3 * size * itemsize: g and x read, dx written
VMEM   as in `elementwise`, whose blocks these are

`slope` is the derivative of `apply`. Both compute in f32: widen bf16 first, and round the result once. They are right
for every finite f32, however large, and never NaN there. `apply` of NaN is NaN, by Triton too, whose maximum and
minimum of NaN and a number are the number.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Described, Float, Float32, Ref
from course_lib.kernels import elementwise
from course_lib.kernels.common import arguments, legal
from course_lib.kernels.dispatch import mesh_rules, sharding
from course_lib.kernels.dispatch.derivatives import differentiable
from course_lib.kernels.dispatch.launch import fixed
from course_lib.kernels.dispatch.mesh_rules import Layout
from course_lib.kernels.elementwise import Blocks

_PER_STEP = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_ALL = 20.0  # beyond it Phi is 1 in f32
_BELL = -0.5 * math.log2(math.e)  # exp(-z * z / 2) is exp2 of this times z * z, one product less
_FLAT = 12.0  # beyond it tanh is 1 in f32, and its slope 0: a cube could only overflow

# Phi(-a) = exp(-a^2 / 2) * m(a) for a >= 0, with m(a) = t * (c0 + c1 t + ... + c7 t^7) and t = 1 / (1 + 0.3 a). The
# form is that of Abramowitz and Stegun 7.1.26; the coefficients are ours, fitted by Lawson's method: the relative error
# of m is below 2e-7 for 0 <= a <= 14.5, and below 6e-7 when evaluated in f32. Mosaic has erf, but 1 + erf(z / sqrt 2)
# keeps no digit of a small Phi, and it has no erfc. The exponential comes last in every product, lest it underflow.
_TAIL_STEP = 0.3
_TAIL = (
    0.11963200650014166,
    0.12071214883408882,
    0.10017585946297701,
    0.12769209438480858,
    -0.05203468384411511,
    0.2045575690499371,
    -0.15615893540590578,
    0.03542385930982293,
)


def relu_reference(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """What ``relu`` must compute."""
    return jax.nn.relu(x)


def gelu_reference(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """What ``gelu`` must compute: in f32, rounded once."""
    return jax.nn.gelu(x.astype(jnp.float32), approximate=False).astype(x.dtype)


def gelu_tanh_reference(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """What ``gelu_tanh`` must compute: in f32, rounded once."""
    return jax.nn.gelu(x.astype(jnp.float32), approximate=True).astype(x.dtype)


def silu_reference(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """What ``silu`` must compute: in f32, rounded once."""
    return jax.nn.silu(x.astype(jnp.float32)).astype(x.dtype)


class Activation(NamedTuple):
    """A function of a block and its derivative, both elementwise and in f32."""

    apply: Callable[[Array], Array]
    slope: Callable[[Array], Array]


def apply(name: str | None, z: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """The activation called ``name`` ("relu", "gelu", "gelu_tanh", "silu", "none" or None) of ``z``, in f32.

    Plain jnp that lowers inside a Pallas TPU kernel and outside. Raises ValueError where the name is unknown.
    """
    return named(name).apply(z)


def slope(name: str | None, z: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """The derivative of ``apply(name, z)`` by ``z``; as ``apply``."""
    return named(name).slope(z)


def named(name: str | None, op: str = "activations") -> Activation:
    """The pair of functions called ``name``. Raises ValueError, in the name of ``op``, where there is none."""
    try:
        return ACTIVATIONS["none" if name is None else name]
    except (KeyError, TypeError):
        known = ", ".join(repr(n) for n in ACTIVATIONS)
        raise ValueError(
            f"{op}: activation is {legal.shown(name)}; it may be one of {known}, or None. Try activation=None, and "
            "apply a function of your own to the result."
        ) from None


def _relu(z):
    return jnp.where(z <= 0, 0, z)


def _relu_slope(z):
    return jnp.where(z > 0, 1.0, 0.0).astype(z.dtype)


def _gelu(z):
    c = jnp.minimum(z, _ALL)  # of an infinity nothing is beyond
    beyond = c * _tail(c) * jnp.exp2(_BELL * (c * c))
    return jnp.where(z <= 0, beyond, z - beyond)


def _gelu_slope(z):
    tail, density, bell = _tail(z), z * (1 / math.sqrt(2 * math.pi)), jnp.exp2(_BELL * (z * z))
    return jnp.where(z < 0, (density + tail) * bell, 1 + (density - tail) * bell)


def _tail(z):
    t = jnp.exp2(-jnp.log2(1 + _TAIL_STEP * jnp.abs(z)))  # 1 / (...) takes a v5e four times as many operations
    polynomial = _TAIL[-1]
    for c in _TAIL[-2::-1]:
        polynomial = polynomial * t + c
    return t * polynomial


def _gelu_tanh(z):
    return z * (0.5 + 0.5 * jnp.tanh(_PER_STEP * (z + _CUBIC * z * z * z)))


def _gelu_tanh_slope(z):
    c = jnp.clip(z, -_FLAT, _FLAT)
    t = jnp.tanh(_PER_STEP * (c + _CUBIC * c * c * c))
    return 0.5 + 0.5 * t + 0.5 * _PER_STEP * c * (1 - t * t) * (1 + 3 * _CUBIC * c * c)


def _silu(z):
    return z * lax.logistic(z)


def _silu_slope(z):
    s = lax.logistic(z)
    return s * (1 + z * (1 - s))


ACTIVATIONS: dict[str, Activation] = {
    "none": Activation(lambda z: z, jnp.ones_like),
    "relu": Activation(_relu, _relu_slope),
    "gelu": Activation(_gelu, _gelu_slope),
    "gelu_tanh": Activation(_gelu_tanh, _gelu_tanh_slope),
    "silu": Activation(_silu, _silu_slope),
}


def _kernel(x_ref: Float[Ref, "*block"], o_ref: Float[Ref, "*block"], *, name: str) -> None:
    o_ref[...] = _apply(x_ref[...], name=name)


def _backward_kernel(
    g_ref: Float[Ref, "*block"], x_ref: Float[Ref, "*block"], dx_ref: Float[Ref, "*block"], *, name: str
) -> None:
    dx_ref[...] = _pull_back(g_ref[...], x_ref[...], name=name)


def _apply(x, *, name):
    return apply(name, x.astype(jnp.float32)).astype(x.dtype)


def _pull_back(g, x, *, name):
    return (g.astype(jnp.float32) * slope(name, x.astype(jnp.float32))).astype(x.dtype)


def relu(x: Float[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None) -> Float[Array, "*shape"]:
    """``max(x, 0)`` for an array of any shape, f32 or bf16; differentiable, with slope 0 at 0.

    Computed in f32 and rounded once, by the kernel on a TPU and by plain JAX elsewhere. ``layout`` says how x lies on a
    mesh with Auto axes. Raises ValueError where ``x`` is not of floats, or the blocks need more VMEM than there is.
    """
    return _activation("relu", x, blocks, layout)


def gelu(x: Float[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None) -> Float[Array, "*shape"]:
    """``x * Phi(x)``, which is ``jax.nn.gelu(x, approximate=False)``; as ``relu``."""
    return _activation("gelu", x, blocks, layout)


def gelu_tanh(
    x: Float[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None
) -> Float[Array, "*shape"]:
    """``gelu`` by way of tanh, which is ``jax.nn.gelu(x)``; as ``relu``."""
    return _activation("gelu_tanh", x, blocks, layout)


def silu(x: Float[Array, "*shape"], *, blocks: Blocks | None = None, layout: Layout = None) -> Float[Array, "*shape"]:
    """``x * sigmoid(x)``; as ``relu``."""
    return _activation("silu", x, blocks, layout)


def blocks_for(x: Float[Described, "*shape"]) -> Blocks:
    """The blocks that every activation chooses for x; right for every chip."""
    return elementwise.blocks_of(x.shape, x.dtype.itemsize)


def _activation(name, x, blocks, layout):
    (x,) = arguments.arrays(name, arguments.FLOATS, x=x)
    legal.check_kind(name, blocks, Blocks)
    (x,), cuts = sharding.ready(name, elementwise.rule(1, x.ndim), (x,), layout)
    return _differentiable(x, name, blocks, cuts)


@functools.partial(differentiable, settings=3)
def _differentiable(x, name, blocks, cuts):
    return elementwise.by_blocks(name, fixed(_kernel, name=name), fixed(_apply, name=name), x, blocks=blocks, cuts=cuts)


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
    """The cotangent of x: g, the cotangent of the activation called ``name``, times its slope at x; a kernel too."""
    kernel, plain = fixed(_backward_kernel, name=name), fixed(_pull_back, name=name)
    return elementwise.by_blocks(f"gradient of {name}", kernel, plain, g, x, blocks=blocks, cuts=cuts)


def _backward(name, blocks, cuts, x, g):
    return (pull_back(name, g, x, blocks=blocks, cuts=cuts),)


_differentiable.defvjp(_forward, _backward)
