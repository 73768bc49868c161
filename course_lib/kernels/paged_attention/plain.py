"""Paged attention in plain JAX, all pages of a sequence gathered in HBM, and its gradient."""

import jax
import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Float, Num
from course_lib.kernels.attention.scores import Scores, to_bf16
from course_lib.kernels.attention.tiles import MASKED
from course_lib.kernels.paged_attention.pools import Pool


def plain(
    q: Float[Array, "*batch H D"],
    *rest: Num[Array, "..."],  # of the pool, lengths, table, scales
    pool: Pool,
    scores: Scores,
    like_kernel: bool = False,
) -> Float[Array, "*batch H D"]:
    """Attention in f32, rounded once. A sequence without tokens gets zeros; one of NaN gets NaN.

    ``like_kernel``: in bf16 the exponentials are rounded before they are multiplied, as in the kernel.
    """
    count = len(pool.letters)
    pools, (lengths, table, *scales) = rest[:count], rest[count:]
    heads = pool.shape(*pools)[0]
    table = jnp.clip(table, 0, pool.size(*pools) - 1)  # as the kernel; indexing would count -1 from the end
    k, v = (x.astype(jnp.float32) for x in pool.gathered(pools, table))
    token, length = jnp.arange(k.shape[-2]), jnp.minimum(lengths, k.shape[-2])[..., None]
    live = token < length
    if scores.window is not None:
        live &= token >= length - scores.window
    k, v = (jnp.where(live[..., None, :, None], x, 0) for x in (k, v))
    of_keys, of_values = scales[0][:, :, None, None] if scales else (1.0, 1.0)
    wide = q.astype(jnp.float32).reshape(*q.shape[:-2], heads, q.shape[-2] // heads, q.shape[-1])
    s = jnp.einsum("...hgd,...htd->...hgt", wide, k, precision=scores.precision) * of_keys
    s = jnp.where(live[..., None, None, :], scores.bent(s), MASKED)
    m = lax.stop_gradient(jnp.max(s, axis=-1, keepdims=True, initial=MASKED))
    p = jnp.where(live[..., None, None, :], jnp.exp2((s - m) * scores.rate), 0)
    total = jnp.sum(p, axis=-1, keepdims=True)
    p = p / jnp.where(total == 0, 1, total)  # of a sequence without tokens
    p = to_bf16(p) if like_kernel and q.dtype == jnp.bfloat16 else p
    o = jnp.einsum("...hgt,...htd->...hgd", p, v, precision=scores.precision) * of_values
    return o.reshape(q.shape).astype(q.dtype)


def gradients(*args: Num[Array, "..."], pool: Pool, scores: Scores) -> tuple[Num[Array, "..."], ...]:
    """Those of q, of the pool and of scales, from the operands and the result's; zeros for a pool of int8."""
    *operands, g = args
    pools = len(pool.letters)
    at = [0, *range(1, 1 + pools), *range(3 + pools, len(operands))]
    moving = [n for n in at if jnp.issubdtype(operands[n].dtype, jnp.floating)]

    def of_moving(*moved):
        changed = dict(zip(moving, moved, strict=True))
        return plain(*(changed.get(n, operand) for n, operand in enumerate(operands)), pool=pool, scores=scores)

    pulled = dict(zip(moving, jax.vjp(of_moving, *(operands[n] for n in moving))[1](g), strict=True))
    return tuple(pulled.get(n, jnp.zeros(operands[n].shape, operands[n].dtype)) for n in at)
