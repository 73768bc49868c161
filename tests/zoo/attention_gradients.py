"""The way back through attention: one kernel for dq, dk and dv, which computes the scores again.

What is judged is the gradient; the forward pass is plain JAX, and keeps o and lse.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import normal
from zoo.attention import BLOCK, MASKED, attention, dot
from zoo.bug import Bug


def of_scores(p, dp, delta):
    return p * (dp - delta)


def without_delta(p, dp, delta):
    return p * dp


def without_p(p, dp, delta):
    return dp - delta


def at_the_first_queries(of_head, i):
    return (of_head == 0) & (i == 0)


def only_once(of_head, i):
    return (pl.program_id(0) == 0) & (of_head == 0) & (i == 0)


def at_every_head(of_head, i):
    return i == 0


def backward(
    q, k, v, lse, delta, do, ds_of=of_scores, starts=at_the_first_queries, of_dq=1.0, of_dk=1.0, dv_of=0, dk_of=None
):
    """dq, dk and dv, with grid (KV heads, query heads that share one, blocks of queries)."""
    (heads, s_len, d), kv_heads = q.shape, k.shape[0]
    group, scale = heads // kv_heads, d**-0.5

    def backward_kernel(q_ref, k_ref, v_ref, lse_ref, delta_ref, do_ref, dq_ref, dk_ref, dv_ref, dk_sum, dv_sum):
        of_head, i = pl.program_id(1), pl.program_id(2)

        @pl.when(starts(of_head, i))
        def _start():
            dk_sum[...] = jnp.zeros_like(dk_sum)
            dv_sum[...] = jnp.zeros_like(dv_sum)

        at = pl.ds(i * BLOCK, BLOCK)
        q, do = q_ref[0, at], do_ref[0, at]
        s = dot(q, k_ref[0].T) * scale
        rows, keys = (lax.broadcasted_iota(jnp.int32, s.shape, axis) for axis in (0, 1))
        p = jnp.exp(jnp.where(keys <= i * BLOCK + rows, s, MASKED) - lse_ref[0, at])
        ds = ds_of(p, dot(do, v_ref[0].T), delta_ref[0, at])
        dq_ref[0] = dot(ds, k_ref[0]) * (scale * of_dq)
        dv_sum[...] += dot((p, ds)[dv_of].T, do)
        dk_sum[...] += dot(ds.T, q if dk_of is None else q_ref[0, dk_of]) * (scale * of_dk)

        @pl.when((of_head == group - 1) & (i == pl.num_programs(2) - 1))
        def _store():
            dk_ref[0], dv_ref[0] = dk_sum[...], dv_sum[...]

    of_queries = pl.BlockSpec((1, s_len, d), lambda g, n, i: (g * group + n, 0, 0))
    of_rows = pl.BlockSpec((1, s_len, 1), lambda g, n, i: (g * group + n, 0, 0))
    of_keys = pl.BlockSpec((1, s_len, d), lambda g, n, i: (g, 0, 0))
    return pl.pallas_call(
        backward_kernel,
        out_shape=(q, k, v),
        grid=(kv_heads, group, s_len // BLOCK),
        in_specs=[of_queries, of_keys, of_keys, of_rows, of_rows, of_queries],
        out_specs=[pl.BlockSpec((1, BLOCK, d), lambda g, n, i: (g * group + n, i, 0)), of_keys, of_keys],
        scratch_shapes=[pltpu.VMEM((s_len, d), jnp.float32)] * 2,
    )(q, k, v, lse, delta, do)


def with_backward(kept="lse", **wrong):
    """Attention in plain JAX, and its gradient by the kernel."""

    def forward(q, k, v):
        o = attention(q, k, v)
        s = jnp.einsum("hsd,htd->hst", q, jnp.repeat(k, q.shape[0] // k.shape[0], 0), precision="highest")
        s = jnp.where(jnp.tril(jnp.ones(s.shape[1:], bool)), s * q.shape[-1] ** -0.5, MASKED)
        lse = (jax.nn.logsumexp if kept == "lse" else jnp.max)(s, -1, keepdims=True)
        return o, (q, k, v, o, lse)

    def back(saved, do):
        q, k, v, o, lse = saved
        return tuple(backward(q, k, v, lse, (do * o).sum(-1, keepdims=True), do, **wrong))

    op = jax.custom_vjp(attention)
    op.defvjp(forward, back)
    return op


ONE_HEAD = tuple(normal(1, 256, 128, seed=seed) for seed in (1, 2, 3))
TWO_HEADS = tuple(normal(2, 128, 64, seed=seed) for seed in (1, 2, 3))
GROUPS = (normal(2, 256, 64, seed=1), normal(1, 256, 64, seed=2), normal(1, 256, 64, seed=3))

BUGS = tuple(
    Bug(
        kind="attention gradients",
        name=name,
        fn=op,
        reference=attention,
        args=args,
        gradient=True,
        caught_by="numbers",
        says=says,
    )
    for name, op, args, says in (
        (
            "delta left out",
            with_backward(ds_of=without_delta),
            ONE_HEAD,
            r"delta is left out of dq: ds is p \* dp(?s:.*)delta = sum\(do \* o\)",
        ),
        ("p left out of ds", with_backward(ds_of=without_p), ONE_HEAD, r"p is left out of dq: ds is dp - delta"),
        (
            "dq without the scale",
            with_backward(of_dq=128**0.5),
            ONE_HEAD,
            r"dq is not multiplied by the scale, 1 / sqrt\(128\)",
        ),
        (
            "dk without the scale",
            with_backward(of_dk=128**0.5),
            ONE_HEAD,
            r"dk is not multiplied by the scale, 1 / sqrt\(128\)",
        ),
        ("dv of ds", with_backward(dv_of=1), ONE_HEAD, r"ds is used instead of p in dv"),
        (
            "dk of the first queries",
            with_backward(dk_of=slice(0, BLOCK)),
            ONE_HEAD,
            r"every block of dk is computed with the first 128 rows of q",
        ),
        (
            "maximum kept for lse",
            with_backward(kept="max"),
            ONE_HEAD,
            r"dq uses exp\(s - m\) as p, without dividing by l(?s:.*)lse = m \+ log\(l\)",
        ),
        (
            "sums go on to the next head",
            with_backward(starts=only_once),
            TWO_HEADS,
            r"dk of a head continues the sum of the previous head",
        ),
        (
            "sums restart at each head of a group",
            with_backward(starts=at_every_head),
            GROUPS,
            r"only the last of the 2 query heads that share a KV head counts in dk",
        ),
    )
)
