"""Attention: -1e30 for -inf, divided at the end; in blocks, with those above the diagonal never fetched."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import normal


def causal(scores):
    row = jax.lax.broadcasted_iota(jnp.int32, scores.shape, 0)
    return jax.lax.broadcasted_iota(jnp.int32, scores.shape, 1) <= row


def attention(q, k, v):
    """One head, causal, with -inf for what is to come."""
    scores = jnp.dot(q, k.T, preferred_element_type=jnp.float32) * 0.125
    weights = jax.nn.softmax(jnp.where(causal(scores), scores, -jnp.inf), axis=-1)
    return jnp.dot(weights.astype(v.dtype), v, preferred_element_type=jnp.float32)


def attention_with_a_large_negative(q, k, v):
    """-1e30 in the place of -inf, and the division after the second product."""

    def kernel(q_ref, k_ref, v_ref, o_ref):
        scores = jax.lax.dot_general(
            q_ref[...], k_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
        )
        scores = jnp.where(causal(scores), scores * 0.125, -1e30)
        weights = jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True))
        total = jnp.sum(weights, axis=1, keepdims=True)
        mixed = jnp.dot(weights.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = mixed / total

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(v.shape, jnp.float32))(q, k, v)


def causal_in_blocks(q, k, v, block=64):
    """Online, over (heads, queries, keys); two heads of q share one of k and v. Blocks above the diagonal are not
    computed, and not fetched either: the index map stays where it is."""
    heads, length, depth = q.shape

    def kernel(q_ref, k_ref, v_ref, o_ref, top_ref, sum_ref, acc_ref):
        i, j = pl.program_id(1), pl.program_id(2)

        @pl.when(j == 0)
        def start():
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            sum_ref[...] = jnp.zeros_like(sum_ref)
            acc_ref[...] = jnp.zeros_like(acc_ref)

        @pl.when(j <= i)
        def add():
            contract_depth = (((1,), (1,)), ((), ()))
            scores = jax.lax.dot_general(q_ref[...], k_ref[...], contract_depth, preferred_element_type=jnp.float32)
            row = block * i + jax.lax.broadcasted_iota(jnp.int32, scores.shape, 0)
            column = block * j + jax.lax.broadcasted_iota(jnp.int32, scores.shape, 1)
            scores = jnp.where(column <= row, scores * 0.125, -1e30)
            top = jnp.maximum(top_ref[...], jnp.max(scores, axis=1, keepdims=True))
            shrunk, weights = jnp.exp(top_ref[...] - top), jnp.exp(scores - top)
            sum_ref[...] = shrunk * sum_ref[...] + jnp.sum(weights, axis=1, keepdims=True)
            mixed = jnp.dot(weights.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32)
            acc_ref[...] = shrunk * acc_ref[...] + mixed
            top_ref[...] = top

        @pl.when(j == pl.num_programs(2) - 1)
        def finish():
            o_ref[...] = (acc_ref[...] / sum_ref[...]).astype(o_ref.dtype)

    of_queries = pl.BlockSpec((None, block, depth), lambda h, i, j: (h, i, 0))
    of_keys = pl.BlockSpec((None, block, depth), lambda h, i, j: (h // 2, jnp.minimum(j, i), 0))
    return pl.pallas_call(
        kernel,
        out_shape=q,
        grid=(heads, length // block, length // block),
        in_specs=[of_queries, of_keys, of_keys],
        out_specs=of_queries,
        scratch_shapes=[pltpu.VMEM((block, 1), jnp.float32)] * 2 + [pltpu.VMEM((block, depth), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(q, k, v)


def attention_of_heads(q, k, v):
    k, v = jnp.repeat(k, 2, axis=0), jnp.repeat(v, 2, axis=0)
    return jax.vmap(attention)(q, k, v).astype(q.dtype)


HEAD = [normal((128, 64), jnp.bfloat16, seed) for seed in range(3)]


HEADS = [normal((heads, 128, 64), jnp.bfloat16, seed) for seed, heads in enumerate((2, 1, 1))]

RIGHT = (
    Right("causal attention, -1e30 for -inf", attention_with_a_large_negative, attention, tuple(HEAD)),
    Right("causal attention in blocks, none fetched in vain", causal_in_blocks, attention_of_heads, tuple(HEADS)),
)
