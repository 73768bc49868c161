"""Attention: ``o = softmax(scale * q @ k.T) @ v`` for each head, without the scores ever being in HBM; its gradient.

    s = q @ k.T    m' = max(m, max_j s)    p = exp2((s - m') * rate)
    shrink = exp2((m - m') * rate)    l' = shrink * l + sum_j p    acc' = shrink * acc + p @ v    o = acc / l

Cost   FLOPs 4*S*T*D a head forward, 10*S*T*D backward; half if causal; HBM bytes 2*S*D*itemsize for q and o, 4*S for
       the logarithms that the gradient needs, and 2*T*D*itemsize for k and v, once for each tile of queries
VMEM   8 * tile*D * itemsize for tiles of q, k, v and o, and some MiB of scores in flight; a sequence of several tiles
       carries 4 * tile*(256 + D) from one to the next

m is the largest score of each query so far, l the sum of its exponentials, acc that of the values: online softmax
(Milakov and Gimelshein 2018; Dao et al. 2022). A tile is a straight-line program of small products: the compiler
computes the exponentials of one while the MXU is busy with the next. l is kept as 128 sums a query, one a lane, which
are added up once, at the end.
"""

import dataclasses
import functools
import math

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Ref
from course_lib.kernels.attention.tiles import MASKED, wide
from course_lib.kernels.common.legal import LANES, check
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot


def plain(
    q: Float[Array, "*queries S D"],
    k: Float[Array, "*heads T D"],
    v: Float[Array, "*heads T E"],
    counts=None,  # which of the scores, (..., S, T); None for all
    *,
    scores,
    rounded=(lambda x: x,) * 2,  # what a kernel in bf16 does, before a product, to exponentials and gradients of scores
) -> tuple[Float[Array, "*queries S E"], Float32[Array, "*queries S"]]:
    """Return what the kernel must compute, in f32, rounded once: o, and log2 of each query's sum of exponentials."""
    if q.ndim > 2 and q.shape[-3] is not k.shape[-3] and q.shape[-3] != k.shape[-3]:
        k, v = (jnp.repeat(x, q.shape[-3] // k.shape[-3], axis=-3) for x in (k, v))
    wide_q, wide_k, wide_v = (x.astype(jnp.float32) for x in (q, k, v))
    s = scores.bent(jnp.einsum("...sd,...td->...st", wide_q, wide_k, precision=scores.precision))
    s = s if counts is None else jnp.where(counts, s, MASKED)
    m = lax.stop_gradient(jnp.max(s, axis=-1, keepdims=True, initial=MASKED))
    p = jnp.exp2(rounded[1]((s - m) * scores.rate))  # s - m first: it is exactly 0 where s is m
    p = p if counts is None else jnp.where(counts, p, 0)
    total = jnp.sum(p, axis=-1, keepdims=True)
    total = jnp.where(total == 0, 1, total)  # of a query that sees no key
    o = jnp.einsum("...st,...te->...se", rounded[0](p / total), wide_v, precision=scores.precision)
    return o.astype(q.dtype), (m * scores.rate + jnp.log2(total))[..., 0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Sizes in positions, cut down to a sequence that is shorter. They change the speed, not the result."""

    tile: int = 2048  # queries, and keys, that a step has in VMEM: like all of them a multiple of 128
    bq: int = 512  # queries of a product
    bk: int = 512  # and its keys

    def __post_init__(self):
        check(self, tile=LANES, bq=LANES, bk=LANES)


def _kernel(
    q_ref: Float[Ref, "heads 1 bq D"],  # block (n, h, i): of some key heads, query head h of each
    k_ref: Float[Ref, "heads bk D"],  # block (n, j)
    v_ref: Float[Ref, "heads bk E"],  # block (n, j)
    *refs: Ref,  # ids of segments, if any; o and lse; m, l and acc, if carried to another tile of keys
    tiles,  # which products a tile is made of, and which of their scores count
    scores,  # what makes scores of products
    segments,  # how many refs hold ids
) -> None:
    ids, (o_ref, lse_ref, *carried) = refs[:segments], refs[segments:]

    @tiles.for_each_kind(pl.program_id(2), pl.program_id(3))
    def _tile(kind, j):
        tasks = [(head, *task) for head in range(q_ref.shape[0]) for task in tiles.tasks(kind)]
        state = {}  # m, l and acc, by head and queries

        def product(n):
            head, at, keys = tasks[n]
            return dot(q_ref[head, 0, at], k_ref[head, keys], transpose_y=True, precision=scores.precision)

        # Products of scores that are computed ahead. Predicted (compiler) for a v5e: 8 x 2048 x 128, causal, takes
        # 80,300 cycles with two and 85,046 with one; 4 x 1024 x 128, not causal, takes 23,388 and 21,716.
        depth = 2 if tiles.causal else 1
        ahead = [product(n) for n in range(min(depth, len(tasks)))]
        for n, (head, at, keys) in enumerate(tasks):
            s, v = scores.bent(ahead.pop(0)), v_ref[head, keys]
            ahead += [product(n + depth)] if n + depth < len(tasks) else []
            for counts in tiles.counts(kind, at, keys, 0, ids):
                s = jnp.where(counts, s, MASKED)
            v = tiles.existing_keys(v, kind, keys)
            before = state.get((head, at))
            if before is None and carried and tiles.has_earlier(kind, at):  # selected: a branch would be a wall
                is_first = j == 0
                before = [jnp.where(is_first, x, r[at]) for x, r in zip((MASKED, 0.0, 0.0), carried, strict=True)]
            m = jnp.broadcast_to(s.max(axis=1, keepdims=True), (s.shape[0], LANES))  # in all lanes: no broadcast later
            m = m if before is None else jnp.maximum(before[0], m)
            p = [jnp.exp2((s[:, x : x + LANES] - m) * scores.rate) for x in range(0, s.shape[1], LANES)]
            l = sum(p)  # noqa: E741  by lanes: across them once, at the end
            acc = dot(jnp.concatenate(p, axis=1).astype(v.dtype), v, precision=scores.precision)
            if before is not None:
                shrink = jnp.exp2((before[0] - m) * scores.rate)
                l, acc = shrink * before[1] + l, wide(shrink, acc.shape[1]) * before[2] + acc  # noqa: E741
            state[head, at] = m, l, acc
            if (head, at) not in [other[:2] for other in tasks[n + 1 :]]:
                for ref, value in zip(carried, state[head, at], strict=False):
                    ref[at] = value
                total = l.sum(axis=1, keepdims=True)
                o = acc / total
                if ids or tiles.causal:  # a query that sees no key, or none with a score above -inf, gets zeros
                    o = jnp.where(wide(m, acc.shape[1]) > MASKED / 2, o, 0 * total)  # NaN where its scores are
                o_ref[head, 0, at] = o.astype(o_ref.dtype)  # after every tile: the last one stays
                lse_ref[head, 0, :, at] = (m[:, :1] * scores.rate + jnp.log2(total)).T


def launch(q, k, v, *ids, of_ids=(), scores, tiles, heads=1, vmem_limit_bytes=None) -> tuple[Array, Array]:
    """Run the kernel on one TPU, ``heads`` key heads a step: o, and log2 of each query's sum of exponentials."""
    (s, d), (t, e), kv_heads, bq, bk = q.shape[-2:], v.shape[-2:], math.prod(k.shape[:-2]), tiles.bq, tiles.bk
    group = math.prod(q.shape[:-2]) // kv_heads
    of_q, of_o = (pl.BlockSpec((heads, 1, bq, width), lambda n, h, i, j: (n, h, i, 0)) for width in (d, e))
    of_k, of_v = (pl.BlockSpec((heads, bk, width), lambda n, h, i, j: (n, tiles.seen(i, j), 0)) for width in (d, e))
    o, lse = pl.pallas_call(
        functools.partial(_kernel, tiles=tiles, scores=scores, segments=len(ids)),
        out_shape=[out_type(q, (kv_heads, group, s, e), q.dtype), out_type(q, (kv_heads, group, 1, s), jnp.float32)],
        grid=(kv_heads // heads, group, tiles.rows, tiles.span),
        in_specs=[of_q, of_k, of_v, *of_ids],
        out_specs=[of_o, pl.BlockSpec((heads, 1, 1, bq), lambda n, h, i, j: (n, h, 0, i))],
        scratch_shapes=[pltpu.VMEM((bq, width), jnp.float32) for width in (LANES, LANES, e) if tiles.span > 1],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary"), vmem_limit_bytes=vmem_limit_bytes
        ),
        name="flash_attention",
    )(q.reshape(kv_heads, group, s, d), k.reshape(kv_heads, t, d), v.reshape(kv_heads, t, e), *ids)
    return o.reshape(*q.shape[:-1], e), lse.reshape(q.shape[:-1])
