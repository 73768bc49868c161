"""Activations as plain functions of a block or an array, for use inside any kernel, and their derivatives.

Both compute in f32: widen bf16 first, and round the result once. They are right for every finite f32, however large,
and never NaN there. ``apply`` of NaN is NaN, in Triton too, whose maximum and minimum of NaN and a number are the
number.
"""

import collections
import math

import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Float32
from course_lib.kernels.common.legal import shown

_PER_STEP, _CUBIC = math.sqrt(2 / math.pi), 0.044715
_BELL = -0.5 * math.log2(math.e)  # exp(-z * z / 2) is exp2 of this times z * z, with one multiplication less

# fmt: off
# Phi(-a) = exp(-a^2 / 2) * m(a) for a >= 0, with m(a) = t * (c0 + c1 t + ... + c7 t^7) and t = 1 / (1 + 0.3 a). The
# form is that of Abramowitz and Stegun 7.1.26; we fitted the coefficients by Lawson's method. The relative error of m
# is below 2e-7 for 0 <= a <= 14.5, and below 6e-7 if evaluated in f32. Mosaic has erf but no erfc, and
# 1 + erf(z / sqrt 2) loses every digit of a small Phi. The exponential is the last factor, lest it underflow first.
_TAIL = (0.11963200650014166, 0.12071214883408882, 0.10017585946297701, 0.12769209438480858,
         -0.05203468384411511, 0.2045575690499371, -0.15615893540590578, 0.03542385930982293)
# fmt: on


Activation = collections.namedtuple("Activation", ["apply", "slope"])  # of a block; slope is the derivative


def _tail(z):
    t = jnp.exp2(-jnp.log2(1 + 0.3 * jnp.abs(z)))  # 1 / (...) takes a v5e four times as many operations
    polynomial = _TAIL[-1]
    for c in _TAIL[-2::-1]:
        polynomial = polynomial * t + c
    return t * polynomial


def _gelu(z):
    c = jnp.minimum(z, 20.0)  # beyond it Phi is 1 in f32, and an infinity minus its tail would be NaN
    beyond = c * _tail(c) * jnp.exp2(_BELL * (c * c))
    return jnp.where(z <= 0, beyond, z - beyond)


def _gelu_slope(z):
    tail, density, bell = _tail(z), z * (1 / math.sqrt(2 * math.pi)), jnp.exp2(_BELL * (z * z))
    return jnp.where(z < 0, (density + tail) * bell, 1 + (density - tail) * bell)


def _gelu_tanh(z):
    return z * (0.5 + 0.5 * jnp.tanh(_PER_STEP * (z + _CUBIC * z * z * z)))


def _gelu_tanh_slope(z):
    c = jnp.clip(z, -12.0, 12.0)  # beyond it tanh is 1 in f32, and its slope 0: a cube could only overflow
    t = jnp.tanh(_PER_STEP * (c + _CUBIC * c * c * c))
    return 0.5 + 0.5 * t + 0.5 * _PER_STEP * c * (1 - t * t) * (1 + 3 * _CUBIC * c * c)


def _silu_slope(z):
    s = lax.logistic(z)
    return s * (1 + z * (1 - s))


ACTIVATIONS: dict[str, Activation] = {
    "none": Activation(lambda z: z, jnp.ones_like),
    "relu": Activation(lambda z: jnp.where(z <= 0, 0, z), lambda z: jnp.where(z > 0, 1.0, 0.0).astype(z.dtype)),
    "gelu": Activation(_gelu, _gelu_slope),
    "gelu_tanh": Activation(_gelu_tanh, _gelu_tanh_slope),
    "silu": Activation(lambda z: z * lax.logistic(z), _silu_slope),
}


def apply(name: str | None, z: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Apply the activation called ``name``, a key of ACTIVATIONS or None, to ``z`` in f32, in any kernel or none."""
    return ACTIVATIONS[name or "none"].apply(z)


def slope(name: str | None, z: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Return the derivative of ``apply(name, z)`` by ``z``."""
    return ACTIVATIONS[name or "none"].slope(z)


def named(name: str | None, op: str = "activations") -> Activation:
    """Return the pair of functions called ``name``. Raises ValueError, in the name of ``op``, if there is none."""
    try:
        return ACTIVATIONS["none" if name is None else name]
    except (KeyError, TypeError):
        known = ", ".join(repr(n) for n in ACTIVATIONS)
        raise ValueError(
            f"{op}: activation is {shown(name)}; it may be one of {known}, or None. Try activation=None, and "
            "apply a function of your own to the result."
        ) from None
