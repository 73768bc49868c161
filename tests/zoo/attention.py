"""Attention: scores, softmax and values in one kernel, which goes through the keys block by block.

The kernel is one, the classic one: what is carried from block to block are values. Each bug is a word of it.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from zoo.arrays import normal
from zoo.bug import Bug

BLOCK = 128  # queries, and keys
MASKED = -1e30
LOG2E = 1.4426950408889634
dot = partial(jnp.dot, precision=lax.Precision.HIGHEST, preferred_element_type=jnp.float32)


def rescaled(m_old, m_new):
    return jnp.exp(m_old - m_new)


def not_rescaled(m_old, m_new):
    return jnp.ones_like(m_new)


def rescaled_in_base_2(m_old, m_new):
    return jnp.exp2(m_old - m_new)


def up_to_its_own(query, key):
    return key <= query


def before_its_own(query, key):
    return key < query


def within_the_block(query, key):
    return key % BLOCK <= query % BLOCK


def up_to_its_block(query, key):
    return key // BLOCK <= query // BLOCK


def head_of(h, heads, kv_heads):
    return h // (heads // kv_heads)


def head_modulo(h, heads, kv_heads):
    return h % kv_heads


def flash(
    q,
    k,
    v,
    scale=1.0,  # times 1 / sqrt(D)
    seen=up_to_its_own,
    of_masked=MASKED,
    of_p=jnp.float32,
    of_sum=rescaled,
    of_values=rescaled,
    carried=True,
    divided_at_once=False,
    masked_late=False,
    key_blocks=lambda n: range(n),
    key_head=head_of,
):
    """softmax(q @ k.T / sqrt(D)) @ v with a causal mask, for q (H, S, D), k and v (G, S, D)."""
    (heads, s_len, d), kv_heads = q.shape, k.shape[0]

    def flash_kernel(q_ref, k_ref, v_ref, o_ref):
        rows = pl.program_id(1) * BLOCK + lax.broadcasted_iota(jnp.int32, (BLOCK, BLOCK), 0)
        m = jnp.full((BLOCK, 1), MASKED)
        total, acc = jnp.zeros((BLOCK, 1)), jnp.zeros((BLOCK, d))
        for j in key_blocks(s_len // BLOCK):
            at = slice(j * BLOCK, (j + 1) * BLOCK)
            keys = j * BLOCK + lax.broadcasted_iota(jnp.int32, (BLOCK, BLOCK), 1)
            counts = seen(rows, keys)
            s = dot(q_ref[0], k_ref[0, at].T) * (scale * d**-0.5)
            s = s if masked_late else jnp.where(counts, s, of_masked)
            m_new = jnp.maximum(m, s.max(1, keepdims=True))
            p = jnp.exp(s - m_new).astype(of_p).astype(jnp.float32)
            total = total * of_sum(m, m_new) + p.sum(1, keepdims=True)
            p = jnp.where(counts, p, 0) if masked_late else p
            acc = acc * of_values(m, m_new) + dot(p, v_ref[0, at])
            acc = acc / total if divided_at_once else acc
            m = m_new if carried else m
        o_ref[0] = acc if divided_at_once else acc / total

    of_queries = pl.BlockSpec((1, BLOCK, d), lambda h, i: (h, i, 0))
    of_keys = pl.BlockSpec((1, s_len, d), lambda h, i: (key_head(h, heads, kv_heads), 0, 0))
    return pl.pallas_call(
        flash_kernel,
        out_shape=q,
        grid=(heads, s_len // BLOCK),
        in_specs=[of_queries, of_keys, of_keys],
        out_specs=of_queries,
    )(q, k, v)


def attention(q, k, v):
    """What ``flash`` should compute, in plain JAX."""
    groups = q.shape[0] // k.shape[0]
    k, v = (jnp.repeat(x, groups, axis=0) for x in (k, v))
    s = jnp.einsum("hsd,htd->hst", q, k, precision="highest") * q.shape[-1] ** -0.5
    s = jnp.where(jnp.tril(jnp.ones(s.shape[1:], bool)), s, -jnp.inf)
    return jnp.einsum("hst,htd->hsd", jax.nn.softmax(s, -1), v, precision="highest")


ONE_HEAD = tuple(normal(1, 256, 128, seed=seed) for seed in (1, 2, 3))
GROUPS = (normal(4, 128, 64, seed=1), normal(2, 128, 64, seed=2), normal(2, 128, 64, seed=3))

BUGS = tuple(
    Bug(kind="attention", name=name, fn=fn, reference=attention, args=args, caught_by="numbers", says=says)
    for name, fn, args, says in (
        (
            "values as if the maximum stood still",
            partial(flash, of_values=not_rescaled),
            ONE_HEAD,
            r"key block 0.* in acc as if the running maximum m had not moved(?s:.*)by exp\(m_old - m_new\)",
        ),
        (
            "sum as if the maximum stood still",
            partial(flash, of_sum=not_rescaled),
            ONE_HEAD,
            r"key block 0.* counts in l, .* as if the running maximum m had not moved",
        ),
        (
            "neither rescaled",
            partial(flash, of_sum=not_rescaled, of_values=not_rescaled),
            ONE_HEAD,
            r"key block 0.* counts in l and in acc as if the running maximum m had not moved",
        ),
        (
            "rescaled in another base",
            partial(flash, of_sum=rescaled_in_base_2, of_values=rescaled_in_base_2),
            ONE_HEAD,
            r"l and acc are multiplied by 2 \*\* \(m_old - m_new\), but the exponentials are exp\(s - m\)",
        ),
        ("maximum never stored", partial(flash, carried=False), ONE_HEAD, r"running maximum m is never stored"),
        (
            "divided at every block",
            partial(flash, divided_at_once=True),
            ONE_HEAD,
            r"acc is divided by l after every block",
        ),
        (
            "mask within the block",
            partial(flash, seen=within_the_block),
            ONE_HEAD,
            r"mask compares indices within a block of 128 queries and one of 128 keys, not positions",
        ),
        (
            "mask without the diagonal",
            partial(flash, seen=before_its_own),
            ONE_HEAD,
            r"a query does not see the key at its own position",
        ),
        (
            "mask in whole blocks",
            partial(flash, seen=up_to_its_block),
            ONE_HEAD,
            r"mask has block granularity(?s:.*)compare positions",
        ),
        ("masked with 0", partial(flash, of_masked=0.0), ONE_HEAD, r"masked scores are 0, and exp\(0 - m\) counts"),
        (
            "masked after the sum",
            partial(flash, masked_late=True),
            ONE_HEAD,
            r"masked after they are summed, so l counts masked keys",
        ),
        (
            "scale left out",
            partial(flash, scale=128**0.5),
            ONE_HEAD,
            r"scores are not multiplied by the scale, 1 / sqrt\(128\)",
        ),
        (
            "scaled by 1 / D",
            partial(flash, scale=128**-0.5),
            ONE_HEAD,
            r"multiplied by 1 / sqrt\(128\) twice, or by 1 / 128",
        ),
        (
            "exp2 without log2 e",
            partial(flash, scale=1 / LOG2E),
            ONE_HEAD,
            r"2 \*\* \(s - m\) is used instead of exp\(s - m\)",
        ),
        (
            "sum of rounded exponentials",
            partial(flash, of_p=jnp.bfloat16),
            ONE_HEAD,
            r"nearly right(?s:.*)in bfloat16, which has 8 bits",
        ),
        (
            "last key block left out",
            partial(flash, key_blocks=lambda n: range(n - 1)),
            ONE_HEAD,
            r"the last key block, keys 128 and on, is left out",
        ),
        (
            "KV heads taken in turns",
            partial(flash, key_head=head_modulo),
            GROUPS,
            r"k_ref holds block \(1, 0, 0\), but the result needs block \(0, 0, 0\)",
        ),
    )
)
