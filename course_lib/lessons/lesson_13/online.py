"""The online softmax of an attention kernel in blocks, for exercises that give the kernel and ask for the rest."""

import math

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

_EXACT = {"precision": "highest", "preferred_element_type": jnp.float32}


def begin(m_ref, l_ref, acc_ref) -> None:
    """Set the statistics of a block of queries at the first block of keys, step 0 of axis 2."""

    @pl.when(pl.program_id(2) == 0)
    def first():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)


def scores(q_ref, k_ref):
    """Return the scaled scores of a block of queries and a block of keys."""
    s = jax.lax.dot_general(q_ref[...], k_ref[...], (((1,), (1,)), ((), ())), **_EXACT)
    return s / math.sqrt(q_ref.shape[1])


def add(s, v_ref, m_ref, l_ref, acc_ref) -> None:
    """Add a block of scores, after rescaling what was summed with a smaller maximum."""
    old, m = m_ref[...], jnp.maximum(m_ref[...], jnp.max(s, axis=1, keepdims=True))
    p, shrink = jnp.exp(s - m), jnp.exp(old - m)
    m_ref[...] = m
    l_ref[...] = l_ref[...] * shrink + jnp.sum(p, axis=1, keepdims=True)
    acc_ref[...] = acc_ref[...] * shrink + jnp.dot(p, v_ref[...], **_EXACT)


def store(o_ref, l_ref, acc_ref) -> None:
    """Write the result at the last block of keys."""

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def last():
        o_ref[...] = acc_ref[...] / l_ref[...]
