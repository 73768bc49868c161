"""The options of attention: how a score is computed from a product ``q @ k.T``, and which scores count."""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Bool, Float32, Int32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores:
    """``scale * q @ k.T``, or with a ``softcap`` ``softcap * tanh(scale * q @ k.T / softcap)``.

    A query sees every key; with ``causal`` the keys up to its own place, and with a ``window`` that many of these.
    """

    scale: float
    softcap: float | None
    causal: bool
    window: int | None
    precision: lax.Precision | None

    @property
    def rate(self) -> float:
        """Return the factor from ``bent`` to a score to base 2: exp2 is what the chip has."""
        return (self.scale if self.softcap is None else self.softcap) * math.log2(math.e)

    def bent(self, products: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """Return what ``rate`` multiplies: the products ``q @ k.T``, or their tanh."""
        return products if self.softcap is None else jnp.tanh(products * (self.scale / self.softcap))

    def slope(self, bent: Float32[Array, "*shape"]) -> Float32[Array, "*shape"] | float:
        """Return the derivative of a score with respect to its product, without the factor ``scale``."""
        return 1.0 if self.softcap is None else 1 - bent * bent


def which_count(
    q: Array, k: Array, segments: tuple[Int32[Array, "..."], ...], scores: Scores
) -> Bool[Array, "..."] | None:
    """Return which scores count, of a shape that broadcasts against (..., S, T); None for all.

    ``segments``: numbers of the queries' segments (..., S) and of the keys' (..., T), without heads; or nothing.
    """
    counts = None
    if scores.causal:
        query, key = (lax.broadcasted_iota(jnp.int32, (q.shape[-2], k.shape[-2]), axis) for axis in (0, 1))
        counts = key <= query
        if scores.window is not None:
            counts &= key > query - scores.window
    if segments:
        same = segments[0][..., :, None] == segments[1][..., None, :]
        same = same.reshape(*same.shape[:-2], *[1] * (q.ndim - same.ndim), *same.shape[-2:])
        counts = same if counts is None else counts & same
    return counts


def to_bf16(x: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Return x rounded to bf16, in f32. (XLA for a CPU would leave out two conversions that follow one another.)"""
    return lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


@jax.custom_vjp
def gradient_to_bf16(x: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Return x itself; its gradient is rounded to bf16."""
    return x


gradient_to_bf16.defvjp(lambda x: (x, None), lambda _, g: (to_bf16(g),))
