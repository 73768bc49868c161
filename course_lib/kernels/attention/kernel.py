"""The kernel of ``flash_attention``: each tile of scores is made, used and forgotten in VMEM.

    s = q @ k.T    m' = max(m, max_j s)    p = exp2((s - m') * rate)
    shrink = exp2((m - m') * rate)    l' = shrink * l + sum_j p    acc' = shrink * acc + p @ v    o = acc / l

m is the largest score of each query so far, l the sum of its exponentials, acc that of the values: online softmax
(Milakov and Gimelshein 2018; Dao et al. 2022). What makes it fast on a TPU is to leave the compiler something to do
beside each wait: a tile is a straight-line program of many small products. While one product's exponentials are taken,
the next product is on the MXU; short and long rows of the diagonal take turns; l is kept as 128 sums a query, one a
lane, and added up across the lanes once, at the end. Nothing in a tile is a branch, which no product may cross.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Int32, Ref
from course_lib.kernels.attention import transposed as attention_transposed
from course_lib.kernels.attention.scores import Scores, down
from course_lib.kernels.attention.tiles import MASKED, Kind, Tiles, carried_to, in_turns, wide
from course_lib.kernels.common.compiler_params import compiler_params
from course_lib.kernels.common.legal import LANES, SUBLANES
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, zero_beyond
from course_lib.kernels.common.symbolic import is_known


def _kernel(
    q_ref: Float[Ref, "heads 1 bq D"],  # block (n, h, i): of some key heads, query head h of each
    k_ref: Float[Ref, "heads bk D"],  # block (n, j)
    v_ref: Float[Ref, "heads bk E"],  # block (n, j)
    *refs: Ref,  # of segments, results and scratch
    segments: bool,
    tiles: Tiles,
    run: Callable,
) -> None:
    i = pl.program_id(2)
    j = tiles.first(i) + pl.program_id(3)
    ids, (o_ref, lse_ref, *carried) = (refs[:2], refs[2:]) if segments else ((), refs)
    for kind, is_it in tiles.kinds(ragged_queries=False):
        step = functools.partial(run, q_ref, k_ref, v_ref, ids, o_ref, lse_ref, carried, kind=kind, tiles=tiles, j=j)
        test = is_it(i, j)
        step() if test is None else pl.when(test)(step)


def tile(
    q_ref: Float[Ref, "heads 1 bq D"],
    k_ref: Float[Ref, "heads bk D"],
    v_ref: Float[Ref, "heads bk E"],
    ids: tuple[Int32[Ref, "1 1 bq"], Int32[Ref, "1 1 bk"]] | tuple[()],  # of segments
    o_ref: Float[Ref, "heads 1 bq E"],  # written after every tile: the last stays
    lse_ref: Float32[Ref, "heads 1 1 bq"],
    carried: list[Float32[Ref, "bq _"]],  # m, l, acc from tile to tile, where there is more than one
    *,
    kind: Kind,
    tiles: Tiles,
    j: Array,
    scores: Scores,
    queries: int,
    keys: int,
) -> None:
    in_a_head, rate = in_turns(tiles.tasks(kind, queries, keys)), scores.rate
    tasks = [(head, task) for head in range(q_ref.shape[0]) for task in in_a_head]
    state: dict[tuple[int, int], tuple[Array, Array, Array]] = {}  # by head, and first query of a block

    def product(n):
        head, task = tasks[n]
        q, k = q_ref[head, 0, task.q0 : task.q1], k_ref[head, task.k0 : task.k1]
        return dot(q, k, transpose_y=True, precision=scores.precision)

    ahead = product(0)
    for n, (head, task) in enumerate(tasks):
        s, ahead = scores.bent(ahead), product(n + 1) if n + 1 < len(tasks) else None
        at, keys_at, v = slice(task.q0, task.q1), slice(task.k0, task.k1), v_ref[head, task.k0 : task.k1]
        if task.masked:
            s = jnp.where(tiles.counts(kind, task, s.shape, 0), s, MASKED)
        if ids:
            s = jnp.where(wide(down(ids[0][0, :, at]), s.shape[1]) == ids[1][0, :, keys_at], s, MASKED)
        if task.k1 > kind.keys:  # of v too: it may hold NaN there, and zero times NaN is NaN
            inside = jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < kind.keys - task.k0
            s, v = jnp.where(inside, s, MASKED), zero_beyond(v, 0, kind.keys - task.k0)
        before = state.get((head, task.q0)) or carried_to(
            carried, (at,), first=j == 0, is_first=tiles.first_key(kind, task.q0) >= 0
        )
        m = jnp.broadcast_to(s.max(axis=1, keepdims=True), (s.shape[0], LANES))  # in all lanes: no broadcast later
        m = m if before is None else jnp.maximum(before[0], m)
        p = [jnp.exp2((s[:, lane : lane + LANES] - m) * rate) for lane in range(0, s.shape[1], LANES)]
        l = sum(p)  # noqa: E741  by lanes: across them once, at the end
        acc = dot(jnp.concatenate(p, axis=1).astype(v.dtype), v, precision=scores.precision)
        if before is not None:
            shrink = jnp.exp2((before[0] - m) * rate)
            l, acc = shrink * before[1] + l, wide(shrink, acc.shape[1]) * before[2] + acc  # noqa: E741
        state[head, task.q0] = m, l, acc
        if all((other, later.q0) != (head, task.q0) for other, later in tasks[n + 1 :]):
            for ref, value in zip(carried, state[head, task.q0], strict=False):
                ref[at] = value
            total = l.sum(axis=1, keepdims=True)
            seen = acc / total
            if ids or scores.causal:  # a query that sees no key, or none with a score above -inf, must see no other
                seen = jnp.where(wide(m, acc.shape[1]) > MASKED / 2, seen, 0 * total)  # NaN where its scores are
            o_ref[head, 0, at] = seen.astype(o_ref.dtype)
            lse_ref[head, 0, :, at] = (m[:, :1] * rate + jnp.log2(total)).T


def _together(most: int, heads: int) -> int:
    """How many heads a step takes: up to ``most``, and a divisor of all of them."""
    return max(n for n in range(1, most + 1) if heads % n == 0) if is_known(heads) else 1


def on_tpu(
    q: Float[Array, "*queries S D"],
    k: Float[Array, "*heads T D"],
    v: Float[Array, "*heads T E"],
    *segments: Int32[Array, "..."],
    scores: Scores,
    chosen: Callable,
) -> tuple[Float[Array, "*queries S E"], Float32[Array, "*queries S"]]:
    """The result and the logarithms to base 2 of the sums of exponentials, which the gradient wants."""
    how = chosen(q, k, v, scores)
    tiles, heads = how.tiles, math.prod(k.shape[:-2])
    group = math.prod(q.shape[:-2]) // heads
    each = heads // math.prod(segments[0].shape[:-1]) if segments else 1  # heads of one row of segments
    together = _together(how.heads, each if segments else heads)
    (s, d), e, bq, bk = q.shape[-2:], v.shape[-1], tiles.bq, tiles.bk

    def lying(positions, width):
        return (width, positions) if how.turned else (positions, width)

    def seen(i, j):  # a tile that is skipped is the last one again: no copy
        j = tiles.first(i) + j
        return jnp.minimum(i, j) if tiles.causal else j

    def of_queries(width):
        return pl.BlockSpec((together, 1, *lying(bq, width)), lambda n, h, i, j: (n, h, *lying(i, 0)))

    def of_keys(width):
        return pl.BlockSpec((together, *lying(bk, width)), lambda n, h, i, j: (n, *lying(seen(i, j), 0)))

    def as_it_lies(x, *outer):
        x = x.reshape(*outer, *x.shape[-2:])
        return x.swapaxes(-1, -2) if how.turned else x

    of_ids = [
        pl.BlockSpec((1, 1, bq), lambda n, h, i, j: (n * together // each, 0, i)),
        pl.BlockSpec((1, 1, bk), lambda n, h, i, j: (n * together // each, 0, seen(i, j))),
    ]
    run = attention_transposed.tile if how.turned else tile
    carried = ((1, bq), (SUBLANES, bq), (e, bq)) if how.turned else ((bq, LANES), (bq, LANES), (bq, e))
    o, lse = pl.pallas_call(
        functools.partial(
            _kernel,
            segments=bool(segments),
            tiles=tiles,
            run=functools.partial(run, scores=scores, queries=how.queries, keys=how.keys),
        ),
        out_shape=[
            out_type(q, (heads, group, *lying(s, e)), q.dtype),
            out_type(q, (heads, group, 1, s), jnp.float32),
        ],
        grid=(heads // together, group, tiles.rows, tiles.span),
        in_specs=[of_queries(d), of_keys(d), of_keys(e), *of_ids[: len(segments)]],
        out_specs=[of_queries(e), pl.BlockSpec((together, 1, 1, bq), lambda n, h, i, j: (n, h, 0, i))],
        scratch_shapes=[pltpu.VMEM(shape, jnp.float32) for shape in carried if tiles.span > 1],
        compiler_params=compiler_params(how.vmem_bytes, "parallel", "parallel", "parallel", "arbitrary"),
        name="flash_attention",
    )(
        as_it_lies(q, heads, group),
        as_it_lies(k, heads),
        as_it_lies(v, heads),
        *(ids.reshape(-1, 1, ids.shape[-1]) for ids in segments),
    )
    o = o.swapaxes(-1, -2) if how.turned else o
    return o.reshape(*q.shape[:-1], e), lse.reshape(q.shape[:-1])
