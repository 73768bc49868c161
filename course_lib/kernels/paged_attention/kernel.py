"""The kernel of ``paged_attention``: pages by hand-made copies, the next block under way while this one is computed.

    s = q @ k.T    m' = max(m, max_j s)    p = exp2((s - m') * rate)
    shrink = exp2((m - m') * rate)    l' = shrink * l + sum_j p    acc' = shrink * acc + p @ v    o = acc / l

A grid step is a sequence, and its loop goes over blocks of pages: so a short sequence has few turns.
Which pages these are stands in the table, which is in SMEM before the grid begins (scalar prefetch). Before a block is
waited for the next one is asked for, also where that is the next sequence's: the latency of a copy is paid once, and
not for every sequence. With a window a sequence begins with the page of the first token that its query sees, and the
rest of that page is masked. All heads do one thing before any of them does the next: so their chains of products,
maxima and exponentials lie side by side, and the compiler has something to do beside each wait.
"""

import dataclasses
import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Bool, Float, Float32, Int32, Num, Ref
from course_lib.kernels.attention.scores import Scores
from course_lib.kernels.attention.tiles import MASKED
from course_lib.kernels.common.compiler_params import compiler_params
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot
from course_lib.kernels.paged_attention.pools import Pool


def _kernel(
    lengths_ref: Int32[Ref, " B"],
    table_ref: Int32[Ref, "B M"],
    q_ref: Float[Ref, "1 KH G W"],  # of sequence b; of heads that are computed together "1 1 H W"
    *refs: Ref,  # pools and scales, o, scratch
    pool: Pool,
    together: int,  # heads of keys; 0 where each is by itself
    scaled: bool,
    scores: Scores,
    page: int,  # tokens
    pages: int,  # of the pool
    count: int,  # of pages in a block
    slots: int,
) -> None:
    pools, refs = refs[: len(pool.letters)], refs[len(pool.letters) :]
    scales, (o_ref, sem, slot_ref, *refs) = refs[:scaled], refs[scaled:]
    m_ref, l_ref, acc_ref, *buffers = refs
    b, sequences, tokens = pl.program_id(0), pl.num_programs(0), count * page
    most = table_ref.shape[1] * page

    def before(b):  # pages in front of its window
        if scores.window is None:
            return 0
        return lax.div(jnp.maximum(jnp.minimum(lengths_ref[b], most) - scores.window, 0), page)

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

    def following(b, j):
        """The block after block j of sequence b; of a sequence past the last where there is none."""
        goes_on = j + 1 < blocks(jnp.minimum(b, sequences - 1))
        return jnp.where(goes_on, b, b + 1), jnp.where(goes_on, j + 1, 0)

    def start(b, j, slot):
        pl.when(b < sequences)(lambda: each_copy(jnp.minimum(b, sequences - 1), j, slot, lambda copy: copy.start()))

    def after(slot, turns):
        return jnp.where(slot + turns < slots, slot + turns, slot + turns - slots)

    @pl.when(b == 0)
    def _begin():
        for buffer in buffers:  # what no copy has filled yet must be numbers, as an int8 is: zero times NaN is NaN
            if jnp.issubdtype(buffer.dtype, jnp.floating):
                buffer[...] = jnp.zeros_like(buffer)
        slot_ref[0] = 0
        at = b, 0
        for slot in range(slots - 1):
            start(*at, slot)
            at = following(*at)

    m_ref[...] = jnp.full_like(m_ref, MASKED)
    l_ref[...] = jnp.zeros_like(l_ref)
    acc_ref[...] = jnp.zeros_like(acc_ref)

    def block(j, _):
        slot, ahead = slot_ref[0], (b, j)
        for _ in range(slots - 1):
            ahead = following(*ahead)
        start(*ahead, after(slot, slots - 1))  # before the wait: so there are always copies under way
        each_copy(b, j, slot, lambda copy: copy.wait())
        slot_ref[0] = after(slot, 1)  # the turns go on from sequence to sequence
        left = length(b) - j * tokens

        @pl.when((left > 0) & (left < tokens))
        def _clean():  # the rest of the last page may hold NaN
            last = lax.div(left - 1, page)
            pool.clean(buffers, slot, last, left - last * page)

        @pl.when(left > 0)
        def _compute():
            pairs = [pool.both(buffers, slot, h) for h in range(q_ref.shape[1])]
            add(q_ref, pairs, left, scales, (m_ref, l_ref, acc_ref), scores, together)

    lax.fori_loop(0, blocks(b), block, None)
    o = acc_ref[...] / l_ref[...].sum(axis=2, keepdims=True)
    if scaled:
        o *= _wide(scales[0][1], o.shape[2])
    o_ref[0] = jnp.where(length(b) > 0, o, 0).astype(o_ref.dtype)


def add(
    q_ref: Float[Ref, "1 KH G W"],
    pairs: list[tuple[Num[Array, "T W"], Num[Array, "T W"]]],  # keys and values of each head
    left: Array,  # so many of these tokens there are
    scales: tuple[Float32[Ref, "2 KH _ 128"], ...],
    state: tuple[Float32[Ref, "KH G _"], ...],  # m, with equal lanes; l, by lanes: across them once, at the end; acc
    scores: Scores,
    together: int,
) -> None:
    """A block to the sums of a sequence."""
    m_ref, l_ref, acc_ref = state
    dtype, heads = q_ref.dtype, range(len(pairs))
    k, v = ([x.astype(dtype) for x in side] for side in zip(*pairs, strict=True))
    s = jnp.stack([dot(q_ref[0, h], k[h], transpose_y=True, precision=scores.precision) for h in heads])
    if scales:
        s *= _wide(scales[0][0], s.shape[2])
    live = _of_tokens(s.shape, left, scores.window, rows=2 * together or 1)
    if together:
        live &= _of_own_head(s.shape, together)
    s = jnp.where(live, scores.bent(s), MASKED)
    m = jnp.maximum(m_ref[...], s.max(axis=2, keepdims=True))
    p = [jnp.exp2((s[:, :, lane : lane + LANES] - m) * scores.rate) for lane in range(0, s.shape[2], LANES)]
    shrink = jnp.exp2((m_ref[...] - m) * scores.rate)
    m_ref[...], l_ref[...] = m, shrink * l_ref[...] + sum(p)
    if together:  # behind each key stands its value
        p = [pltpu.roll(lanes, 1, 2) for lanes in p]
    p = jnp.concatenate(p, axis=2).astype(dtype)
    o = jnp.stack([dot(p[h], v[h], precision=scores.precision) for h in heads])
    acc_ref[...] = _wide(shrink, o.shape[2]) * acc_ref[...] + o


def _of_tokens(shape: tuple[int, ...], left: Array, window: int | None, rows: int) -> Bool[Array, "KH G T"]:
    """Which rows of a block a query sees, so many a token: those of the tokens that are left, or the last of these."""
    place = lax.broadcasted_iota(jnp.int32, shape, 2)
    seen = place < rows * left
    return seen if window is None else seen & (place >= rows * jnp.maximum(left - window, 0))


def _of_own_head(shape: tuple[int, ...], heads: int) -> Bool[Array, "1 H rows"]:
    """Which of a token's 2*KH rows is the key of a query's own head."""
    row, query = (lax.broadcasted_iota(jnp.int32, shape, axis) for axis in (2, 1))
    return lax.rem(row, 2 * heads) == 2 * lax.div(query, shape[1] // heads)


def _wide(equal: Float32[Array, "KH _G 128"], width: int) -> Float32[Array, "KH _G width"]:
    """An array with equal lanes, as wide as that."""
    return jnp.concatenate([equal[...]] * pl.cdiv(width, LANES), axis=2)[:, :, :width]


def on_tpu(
    q: Float[Array, "B H D"],
    pools: list[Num[Array, "..."]],
    lengths: Int32[Array, " B"],
    table: Int32[Array, "B M"],
    scales: Float32[Array, "2 KH"] | None = None,
    *,
    pool: Pool,
    scores: Scores,
    count: int,
    slots: int,
    vmem_bytes: int,
) -> Float[Array, "B H D"]:
    """One grid step a sequence; where keys and values are not cut apart, queries are zero beside the values."""
    heads, page, d = pool.shape(*pools)
    batch, w, together = q.shape[0], pool.width(d), pool.together(heads)
    parts = 1 if together else heads  # what is computed by itself
    group = q.shape[1] // parts
    q = jnp.pad(q.reshape(batch, parts, group, d), ((0, 0), (0, 0), (0, 0), (0, w - d)))
    of_a_sequence = pl.BlockSpec((1, parts, group, w), lambda b, *_: (b, 0, 0, 0))
    wide = [] if scales is None else [_of_each_query(scales, parts, group)]
    how = {"pool": pool, "together": together, "scaled": bool(wide), "scores": scores}
    carried = [pltpu.VMEM((parts, group, width), jnp.float32) for width in (LANES, LANES, w)]
    o = pl.pallas_call(
        functools.partial(_kernel, page=page, pages=pool.size(*pools), count=count, slots=slots, **how),
        out_shape=out_type(q, q.shape, q.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(batch,),
            in_specs=[
                of_a_sequence,
                *[pl.BlockSpec(memory_space=pl.ANY)] * len(pools),
                *[pl.BlockSpec(x.shape, lambda b, *_: (0, 0, 0, 0)) for x in wide],
            ],
            out_specs=of_a_sequence,
            scratch_shapes=[
                pltpu.SemaphoreType.DMA((slots,)),
                pltpu.SMEM((1,), jnp.int32),
                *carried,
                *pool.buffers(slots, count, *pools),
            ],
        ),
        # Numbers of pages are clipped above, for a tenth of the cycles that its own checks of each copy cost.
        compiler_params=dataclasses.replace(compiler_params(vmem_bytes, "arbitrary"), disable_bounds_checks=True),
        name="paged_attention",
    )(lengths, table, q, *pools, *wide)
    return o[..., w - d :].reshape(batch, parts * group, d)


def _of_each_query(scales: Float32[Array, "2 KH"], parts: int, group: int) -> Float32[Array, "2 parts group 128"]:
    """Of a query's head of keys, in all lanes."""
    each = jnp.repeat(scales, parts * group // scales.shape[1], axis=1).reshape(2, parts, group, 1)
    return jnp.broadcast_to(each, (2, parts, group, LANES))
