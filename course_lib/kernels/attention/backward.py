"""The gradient of attention in one kernel, given do, the cotangent of o, and what the forward kernel kept.

    s = k @ q.T    p = exp2(s * rate - lse)    dv += p @ do
    dp = v @ do.T  ds = p * (dp - delta)       dk += ds @ q * scale    dq += ds.T @ k * scale

lse is log2 of a query's sum of exponentials, and delta its sum of o * do, which XLA computes. Keys go down a tile and
queries across, so both are rows, and a row is repeated downwards at no cost. There is no maximum to wait for, so the
MXU is hardly ever idle.

Cost   FLOPs 10*S*T*D a head, half of it if causal: five products, where two kernels, one for dq, would have seven
VMEM   group * S*D * (4 + 2*itemsize) for dq of the heads that share a key head, and tiles of all the others

dk and dv grow while the queries pass by (the inner axes of the grid); dq grows from one tile of keys to the next, so
all of it stays in VMEM. If those of a group are too many, each of its heads has a dk and a dv, which XLA adds up.
"""

import functools
import math

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Float, Float32, Ref
from course_lib.kernels.attention.tiles import MASKED
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot


def _gradient_kernel(
    q_ref: Float[Ref, "1 1 bq D"],  # block (n, h, i), as of do, and of lse and delta, which are rows
    do_ref: Float[Ref, "1 1 bq E"],
    lse_ref: Float32[Ref, "1 1 1 bq"],
    delta_ref: Float32[Ref, "1 1 1 bq"],
    k_ref: Float[Ref, "1 bk D"],  # block (n, j), as of v, dk and dv
    v_ref: Float[Ref, "1 bk E"],
    *refs: Ref,  # ids of segments, if any; dq (1, group, S, D), dk and dv; their sums in f32
    tiles,
    scores,
) -> None:
    """Add p @ do to dv, ds @ q to dk, ds.T @ k to dq: p = exp2(s * rate - lse), ds = p * (v @ do.T - delta)."""
    ids, (dq_ref, dk_ref, dv_ref, dq_sum, dk_sum, dv_sum) = refs[:-6], refs[-6:]
    j, h = pl.program_id(1), pl.program_id(2)
    i = pl.program_id(3) + (j if tiles.causal else 0)
    is_first = (h == 0) & (pl.program_id(3) == 0)  # of the tiles that dk and dv are sums over
    multiply = functools.partial(dot, precision=scores.precision)

    @tiles.for_each_kind(i, j)
    def _tile(kind, j):
        tasks, sums = tiles.tasks(kind), {}  # dk and dv, by keys
        queries_of = lambda ref, at: tiles.existing_queries(ref[0, 0, at], kind, at)  # noqa: E731
        keys_of = lambda ref, keys: tiles.existing_keys(ref[0, keys], kind, keys)  # noqa: E731

        def products(at, keys):
            s = multiply(keys_of(k_ref, keys), queries_of(q_ref, at), transpose_y=True)
            return s, multiply(keys_of(v_ref, keys), queries_of(do_ref, at), transpose_y=True)

        ahead = products(*tasks[0])
        for n, (at, keys) in enumerate(tasks):
            s, dp = ahead
            ahead = products(*tasks[n + 1]) if n + 1 < len(tasks) else None
            bent, delta = scores.bent(s), delta_ref[0, 0, :, at]
            logarithm, counts = bent * scores.rate - lse_ref[0, 0, :, at], list(tiles.counts(kind, at, keys, 1, ids))
            if counts:  # before exp2: what does not count may be too large for it
                logarithm = jnp.where(functools.reduce(jnp.logical_and, counts), logarithm, MASKED)
            delta, p = tiles.existing_queries(delta, kind, at, axis=1), jnp.exp2(logarithm)
            ds = p * (dp - delta) * scores.slope(bent)
            ds, p, k = ds.astype(q_ref.dtype), p.astype(q_ref.dtype), keys_of(k_ref, keys)
            dk, dv = multiply(ds, queries_of(q_ref, at)), multiply(p, queries_of(do_ref, at))
            before = sums.get(keys)
            sums[keys] = (dk, dv) if before is None else (before[0] + dk, before[1] + dv)
            dq = multiply(ds, k, transpose_x=True)
            if at in [other for other, _ in tasks[:n]]:
                dq += dq_sum[h, i, at]
            elif tiles.has_earlier(kind, at):
                dq += jnp.where(j == 0, 0.0, dq_sum[h, i, at])
            dq_sum[h, i, at] = dq
            if at not in [other for other, _ in tasks[n + 1 :]]:
                size = tiles.count(kind, at)
                place = pl.ds(pl.multiple_of(i * tiles.bq, LANES) + at.start, size)
                dq_ref[0, h, place] = (dq[:size] * scores.scale).astype(dq_ref.dtype)
        for keys, (dk, dv) in sums.items():
            for total, part, out, factor in ((dk_sum, dk, dk_ref, scores.scale), (dv_sum, dv, dv_ref, 1.0)):
                total[keys] = jnp.where(is_first, 0.0, total[keys]) + part
                out[0, keys] = (total[keys] * factor).astype(out.dtype)


def launch_gradient(q, k, v, o, lse, do, *ids, of_ids=(), scores, tiles, apart=1, vmem_limit_bytes=None):
    """Run the kernel on one TPU: dq, dk and dv. ``apart`` heads that share a key head have dk and dv of their own."""
    (s, d), (t, e), heads, bq, bk = q.shape[-2:], v.shape[-2:], math.prod(k.shape[:-2]), tiles.bq, tiles.bk
    n, kept = heads * apart, k.dtype if apart == 1 else jnp.float32  # rounded once, when all heads are added up
    group, delta = math.prod(q.shape[:-2]) // n, jnp.sum(o.astype(jnp.float32) * do.astype(jnp.float32), axis=-1)
    # Of the tiles of queries: one that is skipped is the last one again, which is no copy.
    at = (lambda j, i: jnp.minimum(j + i, tiles.rows - 1)) if tiles.causal else (lambda j, i: i)
    of_q, of_do = (pl.BlockSpec((1, 1, bq, width), lambda n, j, h, i: (n, h, at(j, i), 0)) for width in (d, e))
    of_k, of_v = (pl.BlockSpec((1, bk, width), lambda n, j, h, i: (n // apart, j, 0)) for width in (d, e))
    of_dk, of_dv = (pl.BlockSpec((1, bk, width), lambda n, j, h, i: (n, j, 0)) for width in (d, e))
    of_dq = pl.BlockSpec((1, group, s, d), lambda n, j, h, i: (n, 0, 0, 0))
    of_row = pl.BlockSpec((1, 1, 1, bq), lambda n, j, h, i: (n, h, 0, at(j, i)))
    queries = [x.reshape(n, group, s, -1) for x in (q, do)] + [x.reshape(n, group, 1, s) for x in (lse, delta)]
    dq, dk, dv = pl.pallas_call(
        functools.partial(_gradient_kernel, tiles=tiles, scores=scores),
        out_shape=[out_type(q, (n, group, s, d), q.dtype), out_type(q, (n, t, d), kept), out_type(q, (n, t, e), kept)],
        grid=(n, tiles.columns, group, tiles.span if tiles.causal else tiles.rows),
        in_specs=[of_q, of_do, of_row, of_row, of_k, of_v, *of_ids],
        out_specs=[of_dq, of_dk, of_dv],
        scratch_shapes=[pltpu.VMEM(shape, jnp.float32) for shape in ((group, tiles.rows, bq, d), (bk, d), (bk, e))],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary", "arbitrary"), vmem_limit_bytes=vmem_limit_bytes
        ),
        name="flash_attention_gradient",
    )(*queries, *(x.reshape(heads, t, -1) for x in (k, v)), *ids)
    dk, dv = (x.reshape(heads, apart, t, -1).sum(axis=1) if apart > 1 else x for x in (dk, dv))
    return dq.reshape(q.shape), dk.reshape(k.shape).astype(k.dtype), dv.reshape(v.shape).astype(v.dtype)
