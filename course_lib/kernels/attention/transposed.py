"""The kernel for heads of up to 64 elements, with all arrays transposed: positions lie in the lanes.

    s = k.T @ q  (keys, queries)    m, l: rows    acc' = shrink * acc + v @ p  (elements, queries)

XLA stores an array of (heads, positions, 64) with the positions last, so that no lane is padding. Its transpose is a
free view, while a kernel of rows would be surrounded by copies. The MXU pads 64 to 128 if it is the depth or the width
of a product, but not if it is the rows that stream through: ``v @ p`` costs half of ``p @ v``. Maxima and sums go down
the sublanes, which takes additions and no crossing of lanes.
"""

import functools
import math

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Ref
from course_lib.kernels.attention.ragged_tiles import RaggedTiles
from course_lib.kernels.attention.scores import Scores
from course_lib.kernels.attention.tiles import MASKED
from course_lib.kernels.common.legal import SUBLANES
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot


def _kernel(
    q_ref: Float[Ref, "heads 1 D bq"],
    k_ref: Float[Ref, "heads D bk"],
    v_ref: Float[Ref, "heads E bk"],
    *refs: Ref,  # ids of segments, if any; o and lse; m, l and acc, if carried to another tile of keys
    tiles: RaggedTiles,
    scores: Scores,
    segments: int,  # how many refs hold ids
) -> None:
    ids, (o_ref, lse_ref, *carried) = refs[:segments], refs[segments:]

    @tiles.for_each_kind(pl.program_id(2), pl.program_id(3))
    def _tile(kind, j):
        tasks = [(head, *task) for head in range(q_ref.shape[0]) for task in tiles.tasks(kind)]
        state = {}  # m, l and acc, by head and queries
        turned = {}  # keys as rows, once for all queries

        def product(n):
            head, at, keys = tasks[n]
            if (head, keys) not in turned:
                turned[head, keys] = k_ref[head, :, keys].T
            return dot(turned[head, keys], q_ref[head, 0, :, at], precision=scores.precision)

        ahead = product(0)
        for n, (head, at, keys) in enumerate(tasks):
            s, ahead, v = scores.bent(ahead), product(n + 1) if n + 1 < len(tasks) else None, v_ref[head, :, keys]
            for counts in tiles.counts(kind, at, keys, 1, ids):
                s = jnp.where(counts, s, MASKED)
            v = tiles.existing_keys(v, kind, keys, axis=1)
            before = state.get((head, at))
            if before is None and carried and tiles.has_earlier(kind, at):  # selected: a branch would be a wall
                is_first = j == 0
                before = [jnp.where(is_first, x, r[:, at]) for x, r in zip((MASKED, 0.0, 0.0), carried, strict=True)]
            m = s.max(axis=0, keepdims=True)
            m = m if before is None else jnp.maximum(before[0], m)
            p = jnp.exp2((s - m) * scores.rate)
            l = p.reshape(-1, SUBLANES, p.shape[1]).sum(axis=0)  # noqa: E741  by sublanes: across them once, at the end
            acc = dot(v, p.astype(v.dtype), precision=scores.precision)
            if before is not None:
                shrink = jnp.exp2((before[0] - m) * scores.rate)
                l, acc = shrink * before[1] + l, shrink * before[2] + acc  # noqa: E741
            state[head, at] = m, l, acc
            if (head, at) not in [other[:2] for other in tasks[n + 1 :]]:
                for ref, value in zip(carried, state[head, at], strict=False):
                    ref[:, at] = value
                total = l.sum(axis=0, keepdims=True)
                o = acc / total
                if ids or tiles.causal:  # a query that sees no key, or none with a score above -inf, gets zeros
                    o = jnp.where(m > MASKED / 2, o, 0 * total)  # NaN where its scores are
                o_ref[head, 0, :, at] = o.astype(o_ref.dtype)  # after every tile: the last one stays
                lse_ref[head, 0, :, at] = m * scores.rate + jnp.log2(total)


def launch_transposed(q, k, v, *ids, of_ids=(), scores, tiles, heads=1, vmem_limit_bytes=None) -> tuple[Array, Array]:
    """Run the kernel as ``launch`` of kernel.py does, on the same arrays, and return the same."""
    (s, d), (t, e), kv_heads, bq, bk = q.shape[-2:], v.shape[-2:], math.prod(k.shape[:-2]), tiles.bq, tiles.bk
    shape, group = q.shape[:-1], math.prod(q.shape[:-2]) // kv_heads
    of_q, of_o = (pl.BlockSpec((heads, 1, width, bq), lambda n, h, i, j: (n, h, 0, i)) for width in (d, e))
    of_k, of_v = (pl.BlockSpec((heads, width, bk), lambda n, h, i, j: (n, 0, tiles.seen(i, j))) for width in (d, e))
    carried = [pltpu.VMEM((rows, bq), jnp.float32) for rows in (1, SUBLANES, e)]
    q, k, v = q.reshape(kv_heads, group, s, d), k.reshape(kv_heads, t, d), v.reshape(kv_heads, t, e)
    o, lse = pl.pallas_call(
        functools.partial(_kernel, tiles=tiles, scores=scores, segments=len(ids)),
        out_shape=[out_type(q, (kv_heads, group, e, s), q.dtype), out_type(q, (kv_heads, group, 1, s), jnp.float32)],
        grid=(kv_heads // heads, group, tiles.rows, tiles.span),
        in_specs=[of_q, of_k, of_v, *of_ids],
        out_specs=[of_o, pl.BlockSpec((heads, 1, 1, bq), lambda n, h, i, j: (n, h, 0, i))],
        scratch_shapes=carried if tiles.span > 1 else [],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary"), vmem_limit_bytes=vmem_limit_bytes
        ),
        name="flash_attention",
    )(*(x.swapaxes(-1, -2) for x in (q, k, v)), *ids)
    return o.swapaxes(-1, -2).reshape(*shape, e), lse.reshape(shape)
