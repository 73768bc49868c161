"""The gradient of ``flash_attention`` in one kernel, given do, the cotangent of o, and what the forward kernel kept.

    s = k @ q.T    p = exp2(s * rate - lse)    dv += p @ do
    dp = v @ do.T  ds = p * (dp - delta)       dk += ds @ q * scale    dq += ds.T @ k * scale

lse is the logarithm to base 2 of a query's sum of exponentials, and delta its sum of o * do, which XLA makes. Keys go
down a tile and queries across, so both are rows: a row costs nothing to repeat downwards. There is no maximum to wait
for, so the MXU is hardly ever idle.

Cost   FLOPs 10*S*T*D a head, of a causal one half: five products, where two kernels, one for dq, would have seven
VMEM   group * S*D * (4 + 2*itemsize) for dq of the heads that share a key head, and tiles of all the others

dk and dv grow while the queries pass by (the inner axes of the grid); dq grows from one tile of keys to the next, so
all of it stays in VMEM. Where those of a group are too many, each of its heads has a dk and a dv, which XLA adds up.
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Int32, Ref
from course_lib.kernels.attention import scores as attention_scores
from course_lib.kernels.attention.scores import Scores, down
from course_lib.kernels.attention.tiles import MASKED, Kind, Task, Tiles, largest_tiles, wide
from course_lib.kernels.common import chip
from course_lib.kernels.common.compiler_params import compiler_params
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, zero_beyond
from course_lib.kernels.dispatch import mesh_rules
from course_lib.kernels.dispatch.launch import Op, fixed

_SIDE = 256  # queries, and keys, of a product


def gradients(
    operands: tuple[Array, ...],
    o: Float[Array, "*queries S E"],
    lse: Float32[Array, "*queries S"],
    do: Float[Array, "*queries S E"],
    scores: Scores,
    rule: str,
    cuts: mesh_rules.Cuts,
) -> tuple[Float[Array, "*queries S D"], Float[Array, "*heads T D"], Float[Array, "*heads T E"]]:
    """dq, dk and dv; ``operands`` are q, k, v and segments, if any, and ``rule`` is that of the op."""
    op = Op(
        name="gradient of flash_attention",
        rule=rule,
        tpu=fixed(_on_tpu, scores=scores),
        plain=fixed(_plain, scores=scores),
        leading=tuple(range(len(operands) + 3)),
    )
    return op(o, lse, do, *operands, cuts=cuts)


def _plain(o, lse, do, q, k, v, *segments, scores):
    def values(*arrays):
        return attention_scores.plain(*arrays, *segments, scores=scores)[0]

    return jax.vjp(values, q, k, v)[1](do)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Refs:
    """Blocks (n, h, i) of the queries' arrays and (n, j) of the keys'; dq of all the queries of key head n."""

    q: Float[Ref, "1 1 bq D"]
    do: Float[Ref, "1 1 bq E"]
    lse: Float32[Ref, "1 1 1 bq"]
    delta: Float32[Ref, "1 1 1 bq"]
    k: Float[Ref, "1 bk D"]
    v: Float[Ref, "1 bk E"]
    ids: tuple[Int32[Ref, "1 1 bq"], Int32[Ref, "1 1 bk"]] | tuple[()]
    dq: Float[Ref, "1 group S D"]
    dk: Float[Ref, "1 bk D"]
    dv: Float[Ref, "1 bk E"]
    dq_sum: Float32[Ref, "group rows bq D"]
    dk_sum: Float32[Ref, "bk D"]
    dv_sum: Float32[Ref, "bk E"]


def _kernel(*refs: Ref, segments: bool, tiles: Tiles, scores: Scores) -> None:
    ids, others = (refs[6:8], refs[:6] + refs[8:]) if segments else ((), refs)
    names = [field.name for field in dataclasses.fields(_Refs) if field.name != "ids"]
    found = _Refs(ids=ids, **dict(zip(names, others, strict=True)))
    j, h = pl.program_id(1), pl.program_id(2)
    i = pl.program_id(3) + (j if tiles.causal else 0)
    first_query = (h == 0) & (pl.program_id(3) == 0)
    for kind, is_it in tiles.kinds(ragged_queries=True):
        step = functools.partial(_tile, found, kind, tiles, scores, h, i, j, first_query)
        test = is_it(i, j)
        step() if test is None else pl.when(test)(step)


def _tile(refs: _Refs, kind: Kind, tiles: Tiles, scores: Scores, h, i, j, first_query) -> None:
    tasks = tiles.pairs(kind, _SIDE, _SIDE)
    multiply = functools.partial(dot, precision=scores.precision)

    def of_queries(ref, task):
        rows = ref[0, 0, task.q0 : task.q1]
        return zero_beyond(rows, 0, kind.queries - task.q0) if task.q1 > kind.queries else rows

    def of_keys(ref, task):
        rows = ref[0, task.k0 : task.k1]
        return zero_beyond(rows, 0, kind.keys - task.k0) if task.k1 > kind.keys else rows

    def products(task):
        s = multiply(of_keys(refs.k, task), of_queries(refs.q, task), transpose_y=True)
        return s, multiply(of_keys(refs.v, task), of_queries(refs.do, task), transpose_y=True)

    ahead, sums, begun = products(tasks[0]), {}, set()
    for n, task in enumerate(tasks):
        s, dp = ahead
        ahead = products(tasks[n + 1]) if n + 1 < len(tasks) else None
        bent, delta = scores.bent(s), refs.delta[0, 0, :, task.q0 : task.q1]
        logarithm = bent * scores.rate - refs.lse[0, 0, :, task.q0 : task.q1]
        counts = _counts(refs.ids, kind, tiles, task)
        if counts is not None:  # before exp2: what does not count may be too large for it
            logarithm = jnp.where(counts, logarithm, MASKED)
        if task.q1 > kind.queries:
            delta = zero_beyond(delta, 1, kind.queries - task.q0)
        p = jnp.exp2(logarithm)
        ds = (p * (dp - delta) * scores.slope(bent)).astype(refs.q.dtype)
        p, k = p.astype(refs.q.dtype), of_keys(refs.k, task)
        dk, dv = multiply(ds, of_queries(refs.q, task)), multiply(p, of_queries(refs.do, task))
        before = sums.get((task.k0, task.k1))
        sums[task.k0, task.k1] = (dk, dv) if before is None else (before[0] + dk, before[1] + dv)
        dq, at = multiply(ds, k, transpose_x=True), slice(task.q0, task.q1)
        if task.q0 in begun:
            dq += refs.dq_sum[h, i, at]
        elif tiles.first_key(kind, task.q0) < 0:  # earlier tiles of keys have a part
            dq += jnp.where(j == tiles.first(i), 0.0, refs.dq_sum[h, i, at])
        refs.dq_sum[h, i, at] = dq
        begun.add(task.q0)
        if all(later.q0 != task.q0 for later in tasks[n + 1 :]):
            rows = min(task.q1, kind.queries) - task.q0
            place = pl.ds(pl.multiple_of(i * tiles.bq, LANES) + task.q0, rows)
            refs.dq[0, h, place] = (dq[:rows] * scores.scale).astype(refs.dq.dtype)
    for (k0, k1), (dk, dv) in sums.items():
        for total, part, out, factor in ((refs.dk_sum, dk, refs.dk, scores.scale), (refs.dv_sum, dv, refs.dv, 1.0)):
            total[k0:k1] = jnp.where(first_query, 0.0, total[k0:k1]) + part
            out[0, k0:k1] = (total[k0:k1] * factor).astype(out.dtype)


def _counts(ids, kind: Kind, tiles: Tiles, task: Task) -> Array | None:
    """Which scores of a task count, keys by queries; None for all."""
    shape = (task.k1 - task.k0, task.q1 - task.q0)
    asked = [tiles.counts(kind, task, shape, 1)] if task.masked else []
    if ids:
        of_keys = wide(down(ids[1][0, :, task.k0 : task.k1]), shape[1])
        asked.append(of_keys == ids[0][0, :, task.q0 : task.q1])
    if task.k1 > kind.keys:
        asked.append(lax.broadcasted_iota(jnp.int32, shape, 0) < kind.keys - task.k0)
    if task.q1 > kind.queries:
        asked.append(lax.broadcasted_iota(jnp.int32, shape, 1) < kind.queries - task.q0)
    return functools.reduce(jnp.logical_and, asked) if asked else None


def _on_tpu(o, lse, do, q, k, v, *segments, scores):
    s, t, heads = q.shape[-2], k.shape[-2], math.prod(k.shape[:-2])
    group = math.prod(q.shape[:-2]) // heads
    tiles, needed = _fitting(q, k, v, group, scores)
    apart = 1  # heads of a group, where each has a dk and a dv of its own
    if needed > chip.usable_vmem_bytes():
        apart, group = group, 1
        tiles, needed = _fitting(q, k, v, group, scores)
    if needed > chip.vmem_bytes():
        raise ValueError(
            f"flash_attention: the gradient keeps dq of all {s} positions of a head in VMEM, {needed >> 20} MiB with "
            f"the rest, and the chip has {chip.vmem_bytes() >> 20} MiB. Try parts of q, one after another."
        )
    delta = jnp.sum(o.astype(jnp.float32) * do.astype(jnp.float32), axis=-1)
    dq, dk, dv = _call(
        *(x.reshape(heads * apart, group, s, -1) for x in (q, do)),
        *(x.reshape(heads * apart, group, 1, s) for x in (lse, delta)),
        *(x.reshape(heads, t, -1) for x in (k, v)),
        *(ids.reshape(-1, 1, ids.shape[-1]) for ids in segments),
        tiles=tiles,
        scores=scores,
        needed=needed,
    )
    if apart > 1:
        dk, dv = (x.reshape(heads, apart, t, -1).sum(axis=1) for x in (dk, dv))
    return dq.reshape(q.shape), dk.reshape(k.shape).astype(k.dtype), dv.reshape(v.shape).astype(v.dtype)


def _call(q, do, lse, delta, k, v, *segments, tiles: Tiles, scores: Scores, needed: int):
    (n, group, s, d), (heads, t, e), bq, bk = q.shape, v.shape, tiles.bq, tiles.bk
    apart, each = n // heads, n // segments[0].shape[0] if segments else 1
    kept = k.dtype if apart == 1 else jnp.float32  # rounded once, when all heads are added up

    def at(j, i):  # a tile that is skipped is the last one again: no copy
        return jnp.minimum(j + i, tiles.rows - 1) if tiles.causal else i

    def of_queries(width):
        return pl.BlockSpec((1, 1, bq, width), lambda n, j, h, i: (n, h, at(j, i), 0))

    def of_keys(width, heads_of_one):
        return pl.BlockSpec((1, bk, width), lambda n, j, h, i: (n // heads_of_one, j, 0))

    row = pl.BlockSpec((1, 1, 1, bq), lambda n, j, h, i: (n, h, 0, at(j, i)))
    of_ids = [
        pl.BlockSpec((1, 1, bq), lambda n, j, h, i: (n // each, 0, at(j, i))),
        pl.BlockSpec((1, 1, bk), lambda n, j, h, i: (n // each, 0, j)),
    ]
    return pl.pallas_call(
        functools.partial(_kernel, segments=bool(segments), tiles=tiles, scores=scores),
        out_shape=[
            out_type(q, q.shape, q.dtype),
            out_type(q, (n, t, d), kept),
            out_type(q, (n, t, e), kept),
        ],
        grid=(n, tiles.columns, group, tiles.span if tiles.causal else tiles.rows),
        in_specs=[
            *(of_queries(d), of_queries(e), row, row, of_keys(d, apart), of_keys(e, apart)),
            *of_ids[: len(segments)],
        ],
        out_specs=[pl.BlockSpec((1, group, s, d), lambda n, j, h, i: (n, 0, 0, 0)), of_keys(d, 1), of_keys(e, 1)],
        scratch_shapes=[
            pltpu.VMEM((group, tiles.rows, bq, d), jnp.float32),
            pltpu.VMEM((bk, d), jnp.float32),
            pltpu.VMEM((bk, e), jnp.float32),
        ],
        compiler_params=compiler_params(needed, "parallel", "arbitrary", "arbitrary", "arbitrary"),
        name="flash_attention_gradient",
    )(q, do, lse, delta, k, v, *segments)


def _fitting(q: Array, k: Array, v: Array, group: int, scores: Scores) -> tuple[Tiles, int]:
    """The largest tiles that fit into VMEM, or the smallest there are; and the bytes that they take."""
    for tile in largest_tiles(q.dtype):
        tiles = Tiles.of(q, k, tile, causal=scores.causal, window=scores.window)
        wide_d, wide_e = (pl.cdiv(x.shape[-1], LANES) * LANES for x in (k, v))
        item, rows, both = q.dtype.itemsize, tiles.rows * tiles.bq, wide_d + wide_e
        dq = group * rows * wide_d * (4 + 2 * item)
        needed = dq + 2 * item * both * (tiles.bq + 2 * tiles.bk) + 4 * both * tiles.bk + 16 * 4 * _SIDE * _SIDE
        if needed <= chip.usable_vmem_bytes():
            break
    return tiles, needed
