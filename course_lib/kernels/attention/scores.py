"""How the scores of attention are made of ``q @ k.T``, and which of them count; and attention in plain JAX."""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Float, Float32, Int32
from course_lib.kernels.attention.tiles import MASKED
from course_lib.kernels.common.legal import LANES

LOG2E = math.log2(math.e)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores:
    """``scale * q @ k.T``, or with a ``softcap`` ``softcap * tanh(scale * q @ k.T / softcap)``.

    A query sees every key; with ``causal`` those up to its own place, with a ``window`` that many of these. The softmax
    is taken to base 2: exp2 is what the chip has.
    """

    scale: float
    softcap: float | None
    causal: bool
    window: int | None
    precision: lax.Precision | None

    def bent(self, products: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
        """``q @ k.T`` as ``rate`` wants it: as it is, or the tanh of it."""
        return products if self.softcap is None else jnp.tanh(products * (self.scale / self.softcap))

    @property
    def rate(self) -> float:
        """What ``bent`` is multiplied by to be a score to base 2."""
        return (self.scale if self.softcap is None else self.softcap) * LOG2E

    def slope(self, bent: Float32[Array, "*shape"]) -> Float32[Array, "*shape"] | float:
        """By ``scale`` and this a score grows with a product."""
        return 1.0 if self.softcap is None else 1 - bent * bent


def plain(
    q: Float[Array, "*queries S D"],
    k: Float[Array, "*heads T D"],
    v: Float[Array, "*heads T E"],
    *segments: Int32[Array, "..."],
    scores: Scores,
    like_kernel: bool = False,
) -> tuple[Float[Array, "*queries S E"], Float32[Array, "*queries S"]]:
    """Attention, and the logarithm to base 2 of each query's sum of exponentials; all in f32, rounded once.

    ``segments`` of the queries and of the keys, or none. A query that sees no key gets zeros. ``like_kernel``: in bf16
    what meets bf16 numbers in a product is rounded to bf16 before it, as in the kernels, and backwards as well.
    """
    rounding = like_kernel and q.dtype == jnp.bfloat16
    if q.ndim > 2 and q.shape[-3] is not k.shape[-3] and q.shape[-3] != k.shape[-3]:
        group = q.shape[-3] // k.shape[-3]
        k, v = jnp.repeat(k, group, axis=-3), jnp.repeat(v, group, axis=-3)
    wide = [x.astype(jnp.float32) for x in (q, k, v)]
    s = scores.bent(jnp.einsum("...sd,...td->...st", *wide[:2], precision=scores.precision))
    counts = _counts(s, segments, scores)
    s = s if counts is None else jnp.where(counts, s, MASKED)
    m = lax.stop_gradient(jnp.max(s, axis=-1, keepdims=True, initial=MASKED))
    below = (s - m) * scores.rate  # a CPU's fused multiply-add makes s * rate - m * rate not zero where s is m
    p = jnp.exp2(_rounded_backwards(below) if rounding else below)
    p = p if counts is None else jnp.where(counts, p, 0)
    total = jnp.sum(p, axis=-1, keepdims=True)
    total = jnp.where(total == 0, 1, total)  # a query that sees no key
    p = to_bf16(p / total) if rounding else p / total
    o = jnp.einsum("...st,...te->...se", p, wide[2], precision=scores.precision)
    return o.astype(q.dtype), (m * scores.rate + jnp.log2(total))[..., 0]


def to_bf16(x: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Rounded to bf16, and in f32 again: XLA for a CPU leaves out two conversions that follow one another."""
    return lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)


@jax.custom_vjp
def _rounded_backwards(x: Float32[Array, "*shape"]) -> Float32[Array, "*shape"]:
    return x


_rounded_backwards.defvjp(lambda x: (x, None), lambda _, g: (to_bf16(g),))


def _counts(s: Array, segments: tuple[Array, ...], scores: Scores) -> Array | None:
    """Which scores count, of a shape that broadcasts against theirs; None for all."""
    counts = None
    if scores.causal:
        query, key = (lax.broadcasted_iota(jnp.int32, s.shape[-2:], axis) for axis in (0, 1))
        counts = key <= query
        if scores.window is not None:
            counts &= key > query - scores.window
    if segments:
        of_queries, of_keys = segments
        same = of_queries[..., :, None] == of_keys[..., None, :]
        same = same.reshape(*same.shape[:-2], *[1] * (s.ndim - same.ndim), *same.shape[-2:])
        counts = same if counts is None else counts & same
    return counts


def down(row: Array) -> Array:
    """A row of numbers, (1, n), as a column of them, in all of its 128 lanes: (n, 128)."""
    return jnp.broadcast_to(row, (LANES, row.shape[1])).T
