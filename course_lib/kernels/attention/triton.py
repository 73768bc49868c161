"""Attention on Ampere and Ada (A100, L4) by Triton; the result is that of ``attention.reference``.

Cost   FLOPs 4*S*T*D of a head, half if causal; bytes from L2 or HBM (2*S*D + 2*T*D*ceil(S/bq)) * 2
SMEM   2 * bq*D for q, and 4 * (stages - 1) * bk*D, which Triton fills ahead of the products
Regs   per thread (bq*bk + bq*D) / (32 * warps) for the scores and the sum of values in f32

A block of the grid computes bq queries of one head, in a loop over blocks of keys. The first blocks count whole; of
those that reach past the end or, if causal, past a query, a mask tells which keys count.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from course_lib.arrays import Array, BFloat16, Float32
from course_lib.kernels.attention import arguments
from course_lib.kernels.attention.scores import Scores
from course_lib.kernels.common import chip, portable
from course_lib.kernels.common.products import dot

_WIDTHS = 16, 32, 64, 128  # of a head


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Queries of a block of the grid, and keys of a step of its loop. They never change the result."""

    bq: int = 128
    bk: int = 64
    stages: int = 2
    warps: int = 8

    def __post_init__(self):
        if min(self.bq, self.bk) < 16 or self.bq & (self.bq - 1) or self.bk & (self.bk - 1):
            raise ValueError(f"{self}: bq and bk must be powers of two, 16 or more.")


def unfit(q: Array, k: Array, v: Array, *segments: Array, scores: Scores) -> str:
    """Return why this kernel cannot compute the attention; "" if it can."""
    if why := arguments.unfit_for_gpus(q, segments, scores):
        return why
    if q.shape[-1] not in _WIDTHS or v.shape[-1] not in _WIDTHS:
        return f"it takes heads of {', '.join(map(str, _WIDTHS))} numbers, and q is {q.shape}, v is {v.shape}"
    return ""


def on_gpu(q: Array, k: Array, v: Array, *segments: Array, scores: Scores) -> tuple[Array, Array]:
    """Run ``forward``. Raises ``chip.NoKernel`` if it cannot take the operands."""
    if why := unfit(q, k, v, *segments, scores=scores):
        raise chip.NoKernel(why)
    return forward(q, k, v, scores=scores)


def forward(
    q: BFloat16[Array, "*queries S D"],
    k: BFloat16[Array, "*heads T D"],
    v: BFloat16[Array, "*heads T E"],
    *,
    scores: Scores,
    blocks: Blocks | None = None,
    interpret: bool = False,
) -> tuple[BFloat16[Array, "*queries S E"], Float32[Array, "*queries S"]]:
    """Return o, and log2 of each query's sum of exponentials, like ``attention.kernel.plain``."""
    portable.refuse(q, k, v)
    blocks = blocks or Blocks()
    bq, bk = blocks.bq, blocks.bk
    flat_q, flat_k, flat_v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    (heads, s, d), (kv_heads, t, e) = flat_q.shape, flat_v.shape
    group, rate = heads // kv_heads, scores.rate

    def body(q_ref, k_ref, v_ref, o_ref, lse_ref):
        first = pl.program_id(0) * bq  # of the queries
        queries = portable.Block(q_ref, portable.inside((first, 0), (bq, d), (s, d)))[...]

        def step(block, carry, masked):
            m, total, sums = carry
            here = pl.ds(block * bk, bk)
            keys, values = (
                portable.Block(ref.at[here], portable.inside((block * bk, 0), (bk, width), (t, width)))[...]
                for ref, width in ((k_ref, d), (v_ref, e))
            )
            products = dot(queries, keys, transpose_x=False, transpose_y=True)
            if masked:
                query, key = (lax.broadcasted_iota(jnp.int32, (bq, bk), axis) for axis in (0, 1))
                counts = block * bk + key < t
                if scores.causal:
                    counts &= block * bk + key <= first + query
                products = jnp.where(counts, products, -jnp.inf)
            larger = jnp.maximum(m, jnp.max(products, axis=1))
            p, shrink = jnp.exp2((products - larger[:, None]) * rate), jnp.exp2((m - larger) * rate)
            sums = sums * shrink[:, None] + dot(p.astype(q.dtype), values, transpose_x=False, transpose_y=False)
            return larger, total * shrink + jnp.sum(p, axis=1), sums

        whole, blocks_of_keys = t // bk, pl.cdiv(t, bk)
        if scores.causal:
            whole = lax.min(lax.div(first, bk), whole)
            blocks_of_keys = lax.min(lax.div(first + bq + bk - 1, bk), blocks_of_keys)
        nothing = jnp.full((bq,), -jnp.inf), jnp.zeros((bq,)), jnp.zeros((bq, e))
        carry = lax.fori_loop(0, whole, lambda block, carry: step(block, carry, masked=False), nothing)
        m, total, sums = lax.fori_loop(
            whole, blocks_of_keys, lambda block, carry: step(block, carry, masked=True), carry
        )
        in_o, in_lse = portable.inside((first, 0), (bq, e), (s, e)), portable.inside((first,), (bq,), (s,))
        portable.Block(o_ref, in_o)[...] = (sums / total[:, None]).astype(o_ref.dtype)
        portable.Block(lse_ref, in_lse)[...] = m * rate + jnp.log2(total)

    o, lse = pl.pallas_call(
        portable.named(body, "flash_attention"),
        out_shape=(jax.ShapeDtypeStruct((heads, s, e), q.dtype), jax.ShapeDtypeStruct((heads, s), jnp.float32)),
        grid=(pl.cdiv(s, bq), heads),
        in_specs=[
            pl.BlockSpec((None, bq, d), lambda i, head: (head, i, 0)),
            pl.BlockSpec((None, t, d), lambda i, head: (lax.div(head, group), 0, 0)),
            pl.BlockSpec((None, t, e), lambda i, head: (lax.div(head, group), 0, 0)),
        ],
        out_specs=(
            pl.BlockSpec((None, bq, e), lambda i, head: (head, i, 0)),
            pl.BlockSpec((None, bq), lambda i, head: (head, i)),
        ),
        compiler_params=plt.CompilerParams(num_warps=blocks.warps, num_stages=blocks.stages),
        interpret=interpret,
    )(flat_q, flat_k, flat_v)
    return o.reshape(*q.shape[:-1], e), lse.reshape(q.shape[:-1])
