"""Attention of one query a sequence, as in decoding, over keys and values in pages: ``softmax(scale * q @ k.T) @ v``.

    s = q @ k.T    m' = max(m, max_j s)    p = exp2((s - m') * rate)
    shrink = exp2((m - m') * rate)    l' = shrink * l + sum_j p    acc' = shrink * acc + p @ v    o = acc / l

Cost   FLOPs 4*T*H*D for a sequence of T tokens;  HBM bytes 2*T*KH*D * itemsize, whole pages of them, and q and o: each
       key is used for one product with a few queries, so the copies take the time
VMEM   slots * pages * (2*KH*P*D) * itemsize: blocks of pages on their way, in use, or both

A pool of N pages holds the keys and values of P tokens each, for KH heads. Tokens i*P to i*P + P - 1 of a sequence lie
in page ``table[i]``, wherever that is; the table is in SMEM before the grid begins (scalar prefetch). A grid step is a
sequence, and loops over blocks of pages. It copies them itself: before it waits for a block it asks for later ones,
also those of the next sequence, so that the latency of a copy is paid once. With a window it begins with the page of
the first token that the query sees. All heads do one thing before any of them does the next, so that their chains of
products, maxima and exponentials overlap.
"""

import dataclasses
import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Int32, Ref
from course_lib.kernels.attention.tiles import MASKED
from course_lib.kernels.common.legal import LANES, check
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot


def plain(q, pools, lengths, table, scales=None, *, pool, scores, rounded=lambda p: p) -> Float[Array, "*batch H D"]:
    """Return what the kernel must compute, in f32, rounded once: a sequence without tokens gets zeros.

    ``pool`` says how pages lie. ``rounded`` is what the kernel does in bf16 to the exponentials before a product.
    """
    heads, table = pool.shape(*pools)[0], jnp.clip(table, 0, pool.size(*pools) - 1)
    k, v = (x.astype(jnp.float32) for x in pool.gathered(pools, table))
    token, length = jnp.arange(k.shape[-2]), jnp.minimum(lengths, k.shape[-2])[..., None]
    live = token < length
    if scores.window is not None:
        live &= token >= length - scores.window
    k, v = (jnp.where(live[..., None, :, None], x, 0) for x in (k, v))
    of_keys, of_values = (1.0, 1.0) if scales is None else scales[:, :, None, None]
    wide_q = q.astype(jnp.float32).reshape(*q.shape[:-2], heads, q.shape[-2] // heads, q.shape[-1])
    s = jnp.einsum("...hgd,...htd->...hgt", wide_q, k, precision=scores.precision) * of_keys
    s = jnp.where(live[..., None, None, :], scores.bent(s), MASKED)
    m = lax.stop_gradient(jnp.max(s, axis=-1, keepdims=True, initial=MASKED))
    p = jnp.where(live[..., None, None, :], jnp.exp2((s - m) * scores.rate), 0)
    total = jnp.sum(p, axis=-1, keepdims=True)
    p = rounded(p / jnp.where(total == 0, 1, total))  # 0 of a sequence without tokens
    o = jnp.einsum("...hgt,...htd->...hgd", p, v, precision=scores.precision) * of_values
    return o.reshape(q.shape).astype(q.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Sizes that change the speed, not the result."""

    pages: int = 16  # of a block: rounded up until it has a multiple of 128 tokens
    slots: int = 3  # blocks in VMEM: one in use, the others on their way

    def __post_init__(self):
        check(self, pages=1, slots=1)


def _kernel(
    lengths_ref: Int32[Ref, " B"],
    table_ref: Int32[Ref, "B M"],
    q_ref: Float[Ref, "1 KH G W"],  # of sequence b; of heads that are computed together "1 1 H W"
    *refs: Ref,  # arrays of the pool, and scales if there are any; o; scratch
    pool,  # how the pages lie
    arrays,  # of the pool
    scores,
    tokens,  # of a block
    **sizes,
) -> None:
    pools, buffers = refs[:arrays], refs[-arrays:]
    *scales, o_ref, sem, slot_ref, m_ref, l_ref, acc_ref = refs[arrays:-arrays]
    b = pl.program_id(0)
    begin, take, length, blocks = _queue(
        lengths_ref, table_ref, pools, buffers, sem, slot_ref, pool=pool, window=scores.window, **sizes
    )
    pl.when(b == 0)(lambda: begin(b))
    m_ref[...] = jnp.full_like(m_ref, MASKED)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)

    def block(j, _):
        slot, left = take(b, j)

        @pl.when(left > 0)
        def _compute():
            multiply = functools.partial(dot, precision=scores.precision)
            pairs = [pool.both(buffers, slot, h) for h in range(q_ref.shape[1])]
            k, v = ([x.astype(q_ref.dtype) for x in side] for side in zip(*pairs, strict=True))
            s = jnp.stack([multiply(q_ref[0, h], k[h], transpose_y=True) for h in range(len(k))])
            if scales:
                s *= _wide(scales[0][0], s.shape[2])
            s = jnp.where(pool.live(s.shape, tokens, left, scores.window), scores.bent(s), MASKED)
            m = jnp.maximum(m_ref[...], s.max(axis=2, keepdims=True))
            p = [jnp.exp2((s[:, :, lane : lane + LANES] - m) * scores.rate) for lane in range(0, s.shape[2], LANES)]
            shrink = jnp.exp2((m_ref[...] - m) * scores.rate)
            m_ref[...], l_ref[...] = m, shrink * l_ref[...] + sum(p)  # l by lanes: across them once, at the end
            p = jnp.concatenate(pool.of_values(p), axis=2).astype(q_ref.dtype)
            o = jnp.stack([multiply(p[h], v[h]) for h in range(len(v))])
            acc_ref[...] = _wide(shrink, o.shape[2]) * acc_ref[...] + o

    lax.fori_loop(0, blocks(b), block, None)
    o = acc_ref[...] / l_ref[...].sum(axis=2, keepdims=True)
    if scales:
        o *= _wide(scales[0][1], o.shape[2])
    o_ref[0] = jnp.where(length(b) > 0, o, 0).astype(o_ref.dtype)


def launch(q, pools, lengths, table, scales=None, *, pool, scores, count, slots, vmem_limit_bytes=None) -> Array:
    """Run the kernel on one TPU, for q (B, H, D): blocks of ``count`` pages, ``slots`` of them in VMEM."""
    heads, page, d = pool.shape(*pools)
    batch, w, parts = q.shape[0], pool.width(d), pool.parts(heads)
    group = q.shape[1] // parts
    # Where keys and values are not cut apart, queries are zero beside the values.
    q = jnp.pad(q.reshape(batch, parts, group, d), ((0, 0), (0, 0), (0, 0), (0, w - d)))
    of_q = pl.BlockSpec((1, parts, group, w), lambda b, *_: (b, 0, 0, 0))
    wide = []
    if scales is not None:  # of each query's KV head, in all lanes
        each = jnp.repeat(scales, parts * group // heads, axis=1).reshape(2, parts, group, 1)
        wide = [jnp.broadcast_to(each, (2, parts, group, LANES))]
    of_scales = [pl.BlockSpec(x.shape, lambda b, *_: (0, 0, 0, 0)) for x in wide]
    sizes = {"page": page, "pages": pool.size(*pools), "count": count, "slots": slots}
    o = pl.pallas_call(
        functools.partial(_kernel, pool=pool, arrays=len(pools), scores=scores, tokens=count * page, **sizes),
        out_shape=out_type(q, q.shape, q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(batch,),
            in_specs=[of_q, *[pl.BlockSpec(memory_space=pl.ANY)] * len(pools), *of_scales],
            out_specs=of_q,
            scratch_shapes=[
                pltpu.SemaphoreType.DMA((slots,)),
                pltpu.SMEM((1,), jnp.int32),
                *[pltpu.VMEM((parts, group, width), jnp.float32) for width in (LANES, LANES, w)],
                *pool.buffers(slots, count, *pools),
            ],
        ),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("arbitrary",),
            vmem_limit_bytes=vmem_limit_bytes,
            disable_bounds_checks=True,  # the kernel clips page numbers, for a tenth of what checks of each copy cost
        ),
        name="paged_attention",
    )(lengths, table, q, *pools, *wide)
    return o[..., w - d :].reshape(batch, parts * group, d)


def _queue(lengths_ref, table_ref, pools, buffers, sem, slot_ref, *, pool, window, page, pages, count, slots):
    """Return functions: ask for the first blocks; take block j of sequence b; tokens and blocks of a sequence."""
    sequences, tokens, most = pl.num_programs(0), count * page, table_ref.shape[1] * page

    def before(b):  # pages in front of its window
        return 0 if window is None else lax.div(jnp.maximum(jnp.minimum(lengths_ref[b], most) - window, 0), page)

    def length(b):  # tokens from there on
        return jnp.minimum(lengths_ref[b], most) - before(b) * page

    def blocks(b):  # an empty sequence has one, of which nothing is copied
        return jnp.maximum(pl.cdiv(length(b), tokens), 1)

    def each_copy(b, j, slot, do):
        left = length(b) - j * tokens

        def of_page(t):
            number = jnp.clip(table_ref[b, before(b) + j * count + t], 0, pages - 1)
            for copy in pool.copies(pools, buffers, number, slot, t, sem.at[slot]):
                do(copy)

        @pl.when(left >= tokens)
        def _whole():
            for t in range(count):
                of_page(t)

        @pl.when(left < tokens)
        def _part():
            lax.fori_loop(0, pl.cdiv(left, page), lambda t, _: of_page(t), None)

    def following(b, j):  # the block after block j of sequence b; of a sequence past the last if there is none
        goes_on = j + 1 < blocks(jnp.minimum(b, sequences - 1))
        return jnp.where(goes_on, b, b + 1), jnp.where(goes_on, j + 1, 0)

    def start(b, j, slot):
        pl.when(b < sequences)(lambda: each_copy(jnp.minimum(b, sequences - 1), j, slot, lambda copy: copy.start()))

    def after(slot, steps):
        return jnp.where(slot + steps < slots, slot + steps, slot + steps - slots)

    def begin(b):
        for buffer in buffers:  # what no copy has filled yet must be numbers, as an int8 is: zero times NaN is NaN
            if jnp.issubdtype(buffer.dtype, jnp.floating):
                buffer[...] = jnp.zeros_like(buffer)
        slot_ref[0] = 0
        at = b, 0
        for slot in range(slots - 1):
            start(*at, slot)
            at = following(*at)

    def take(b, j):
        slot, ahead = slot_ref[0], (b, j)
        for _ in range(slots - 1):
            ahead = following(*ahead)
        start(*ahead, after(slot, slots - 1))  # before the wait, so that there are always copies under way
        each_copy(b, j, slot, lambda copy: copy.wait())
        slot_ref[0] = after(slot, 1)  # slots go round from sequence to sequence
        left = length(b) - j * tokens

        @pl.when((left > 0) & (left < tokens))
        def _clean():  # the rest of the last page may hold NaN
            last = lax.div(left - 1, page)
            pool.clean(buffers, slot, last, left - last * page)

        return slot, left

    return begin, take, length, blocks


def _wide(equal: Float32[Array, "KH _G 128"], width: int) -> Float32[Array, "KH _G width"]:
    """Return an array with equal lanes, as wide as that."""
    return jnp.concatenate([equal[...]] * pl.cdiv(width, LANES), axis=2)[:, :, :width]
