"""The last part of the page that ``python -m course_lib.kernels attention`` prints, behind kernel.py.

Left to the library: checks of arguments, meshes, windows, segments, softcaps, sequences that end within a tile (here
they are padded), and the kernel for heads of up to 64 elements (in docs/results.md the row 8 x 2048 x 64).
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from course_lib.kernels.attention.backward import launch_gradient
from course_lib.kernels.attention.kernel import Blocks, launch, plain
from course_lib.kernels.attention.tiles import Tiles


class Scores(NamedTuple):
    """``scale * q @ k.T``, and times log2(e) for a softmax to base 2: the chip computes exp2."""

    scale: float
    precision: lax.Precision | None
    bent = staticmethod(lambda products: products)
    slope = staticmethod(lambda products: 1.0)
    rate = property(lambda self: self.scale * math.log2(math.e))


def flash_attention(q: Array, k: Array, v: Array, causal: bool = False, blocks: Blocks | None = None) -> Array:
    """Return ``softmax(D**-0.5 * q @ k.T) @ v`` for q (..., H, S, D), k (..., G, T, D) and v (..., G, T, E)."""
    s, t, in_bf16 = q.shape[-2], k.shape[-2], q.dtype == jnp.bfloat16
    bq, bk = (256 if s <= 512 else 128, 512 if s <= 1536 else 1024) if causal else (512, 512)
    blocks = blocks or Blocks(tile=2048 if in_bf16 else 1024, bq=bq, bk=bk)
    tiles, backward_tiles = (Tiles(s, t, blocks.tile, *sizes, causal) for sizes in ((blocks.bq, blocks.bk), (256, 256)))
    how = {"scores": Scores(q.shape[-1] ** -0.5, None if in_bf16 else lax.Precision.HIGHEST)}
    one_tile = tiles.rows * tiles.columns == 1  # then a step takes several heads, a divisor of all
    heads = math.gcd(math.prod(k.shape[:-2]), max(1, one_tile * 2**19 // (tiles.bq * tiles.bk)))

    def in_jax(q, k, v):
        return plain(q, k, v, jnp.tri(q.shape[-2], dtype=bool) if causal else jnp.arange(k.shape[-2]) < t, **how)

    def forward(q, k, v):
        on_tpu = functools.partial(launch, tiles=tiles, heads=heads, vmem_limit_bytes=64 << 20, **how)
        o, lse = lax.platform_dependent(q, k, v, tpu=on_tpu, default=in_jax)
        return o, (q, k, v, o, lse)

    def backward(saved, do):
        on_tpu = functools.partial(launch_gradient, tiles=backward_tiles, vmem_limit_bytes=64 << 20, **how)
        elsewhere = lambda *saved: jax.vjp(lambda *qkv: in_jax(*qkv)[0], *saved[:3])[1](saved[-1])  # noqa: E731
        return lax.platform_dependent(*saved, do, tpu=on_tpu, default=elsewhere)

    attention = jax.custom_vjp(lambda *qkv: forward(*qkv)[0])
    attention.defvjp(forward, backward)
    pad = lambda x, size: jnp.pad(x, ((0, 0),) * (x.ndim - 2) + ((0, size - x.shape[-2]), (0, 0)))  # noqa: E731
    k, v = (pad(x, tiles.columns * tiles.bk) for x in (k, v))
    return attention(pad(q, tiles.rows * tiles.bq), k, v)[..., :s, :]


def reference(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    """Return what ``flash_attention`` must compute."""
    counts = jnp.tri(q.shape[-2], dtype=bool) if causal else None
    return plain(q, k, v, counts, scores=Scores(q.shape[-1] ** -0.5, lax.Precision.HIGHEST))[0]
