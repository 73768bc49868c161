"""The tile of ``attention_forward`` for heads of up to 64 elements, with all arrays transposed: positions in the lanes.

    s = k.T @ q  (keys, queries)    m, l: rows    acc' = shrink * acc + v @ p  (elements, queries)

XLA stores an array of (heads, positions, 64) with the positions last, so that no lane is padding: its transpose lies
there for nothing, and a kernel of rows would be wrapped in copies. The MXU pads 64 to 128 where it is the depth or the
width of a product, but not where it is the rows that stream through: ``v @ p`` costs half of ``p @ v``. Maxima and sums
go down the sublanes, which is additions and no crossing of lanes.
"""

import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Float, Float32, Int32, Ref
from course_lib.kernels.attention.scores import Scores, down
from course_lib.kernels.attention.tiles import MASKED, Kind, Tiles, carried_to, in_turns, wide
from course_lib.kernels.common.legal import SUBLANES
from course_lib.kernels.common.products import dot, zero_beyond


def tile(
    q_ref: Float[Ref, "heads 1 D bq"],
    k_ref: Float[Ref, "heads D bk"],
    v_ref: Float[Ref, "heads E bk"],
    ids: tuple[Int32[Ref, "1 1 bq"], Int32[Ref, "1 1 bk"]] | tuple[()],  # of segments
    o_ref: Float[Ref, "heads 1 E bq"],  # written after every tile: the last stays
    lse_ref: Float32[Ref, "heads 1 1 bq"],
    carried: list[Float32[Ref, "_ bq"]],  # m, l, acc from tile to tile, where there is more than one
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
    turned: dict[tuple[int, int, int], Array] = {}
    state: dict[tuple[int, int], tuple[Array, Array, Array]] = {}  # by head, and first query of a block

    def product(n):
        head, task = tasks[n]
        at = head, task.k0, task.k1
        turned[at] = turned[at] if at in turned else k_ref[head, :, task.k0 : task.k1].T  # once for all queries
        return dot(turned[at], q_ref[head, 0, :, task.q0 : task.q1], precision=scores.precision)

    ahead = product(0)
    for n, (head, task) in enumerate(tasks):
        s, ahead = scores.bent(ahead), product(n + 1) if n + 1 < len(tasks) else None
        at, keys_at, v = slice(task.q0, task.q1), slice(task.k0, task.k1), v_ref[head, :, task.k0 : task.k1]
        if task.masked:
            s = jnp.where(tiles.counts(kind, task, s.shape, 1), s, MASKED)
        if ids:
            s = jnp.where(wide(down(ids[1][0, :, keys_at]), s.shape[1]) == ids[0][0, :, at], s, MASKED)
        if task.k1 > kind.keys:  # of v too: it may hold NaN there, and zero times NaN is NaN
            inside = lax.broadcasted_iota(jnp.int32, s.shape, 0) < kind.keys - task.k0
            s, v = jnp.where(inside, s, MASKED), zero_beyond(v, 1, kind.keys - task.k0)
        before = state.get((head, task.q0)) or carried_to(
            carried, (slice(None), at), first=j == 0, is_first=tiles.first_key(kind, task.q0) >= 0
        )
        m = s.max(axis=0, keepdims=True)
        m = m if before is None else jnp.maximum(before[0], m)
        p = jnp.exp2((s - m) * rate)
        l = p.reshape(-1, SUBLANES, p.shape[1]).sum(axis=0)  # noqa: E741  by sublanes: across them once, at the end
        acc = dot(v, p.astype(v.dtype), precision=scores.precision)
        if before is not None:
            shrink = jnp.exp2((before[0] - m) * rate)
            l, acc = shrink * before[1] + l, shrink * before[2] + acc  # noqa: E741
        state[head, task.q0] = m, l, acc
        if all((other, later.q0) != (head, task.q0) for other, later in tasks[n + 1 :]):
            for ref, value in zip(carried, state[head, task.q0], strict=False):
                ref[:, at] = value
            total = l.sum(axis=0, keepdims=True)
            seen = acc / total
            if ids or scores.causal:  # a query that sees no key, or none with a score above -inf, must see no other
                seen = jnp.where(m > MASKED / 2, seen, 0 * total)  # NaN where its scores are
            o_ref[head, 0, :, at] = seen.astype(o_ref.dtype)
            lse_ref[head, 0, :, at] = m * rate + jnp.log2(total)
