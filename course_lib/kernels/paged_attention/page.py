"""The last part of the page that ``python -m course_lib.kernels paged_attention`` prints, behind kernel.py.

Left to the library: checks of arguments, meshes, softcaps, tables that SMEM does not hold, blocks for any chip, and
the pools of other libraries (as in the rows of docs/results.md).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental import pallas as pl

from course_lib.kernels.common.legal import LANES
from course_lib.kernels.paged_attention.kernel import launch, plain
from course_lib.kernels.paged_attention.pools import Joined


class Scores(NamedTuple):
    """``scale * q @ k.T``, and times log2(e) for a softmax to base 2: the chip computes exp2."""

    scale: float
    window: int | None
    precision: lax.Precision | None
    bent = staticmethod(lambda products: products)
    rate = property(lambda self: self.scale * math.log2(math.e))


def paged_attention(q, pages, lengths, table, scales=None, window=None) -> Array:
    """Return ``softmax(D**-0.5 * q @ k.T) @ v`` for q (B, H, D) and the tokens, up to ``window``, of each sequence.

    int32 lengths (B,) and table (B, M); pages (N, KH, P, 2*D), as q or int8 with scales (2, KH) of keys and of values.
    """
    (heads, page, d), most = Joined().shape(pages), table.shape[1]
    scores = Scores(d**-0.5, window, lax.Precision.HIGHEST if q.dtype == jnp.float32 else None)
    step = LANES // math.gcd(page, LANES)  # pages that make whole registers of scores
    # Two blocks on their way take as long as the latency of a copy; 256 to 2048 tokens each, and no more than are read.
    count = max(pl.cdiv(750_000, 2 * heads * page * d * pages.dtype.itemsize), pl.cdiv(256, page))
    read = most if window is None else min(most, pl.cdiv(window - 1, page) + 1)
    count = pl.cdiv(min(count, pl.cdiv(2048, page), read), step) * step
    how = {"pool": Joined(), "scores": scores}

    in_jax = lambda q, pages, *rest: plain(q, (pages,), *rest, **how)  # noqa: E731
    sizes = {"count": count, "slots": 3, "vmem_limit_bytes": 64 << 20}
    on_tpu = lambda q, pages, *rest: launch(q, (pages,), *rest, **how, **sizes)  # noqa: E731
    attention = jax.custom_vjp(lambda *args: lax.platform_dependent(*args, tpu=on_tpu, default=in_jax))
    attention.defvjp(lambda *args: (attention(*args), args), lambda args, g: jax.vjp(in_jax, *args)[1](g))
    return attention(q, pages, lengths, table, scales)


def reference(q, pages, lengths, table, scales=None, window=None) -> Array:
    """Return what ``paged_attention`` must compute."""
    scores = Scores(q.shape[-1] ** -0.5, window, lax.Precision.HIGHEST)
    return plain(q, (pages,), lengths, table, scales, pool=Joined(), scores=scores)
