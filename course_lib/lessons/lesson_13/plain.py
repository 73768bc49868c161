"""Attention in plain JAX, in float32, and its gradients from what a forward kernel keeps."""

import math

import jax
import jax.numpy as jnp
import numpy as np


def scores(q, k):
    """Return q @ k.T / sqrt(D) for each head."""
    return jnp.einsum("...td,...sd->...ts", q, k, precision="highest") / math.sqrt(q.shape[-1])


def weighted(p, v):
    return jnp.einsum("...ts,...sd->...td", p, v, precision="highest")


def attention(q, k, v, counts=True):
    """Return attention over the keys that ``counts`` names, broadcast to [..., T, S]."""
    return weighted(jax.nn.softmax(jnp.where(counts, scores(q, k), -jnp.inf), axis=-1), v)


def attention_of_bfloat16(q, k, v, counts=True):
    """Return attention in bfloat16, as a kernel rounds it: exponentials before their matmul, and the result."""
    q, k, v = (x.astype(jnp.float32) for x in (q, k, v))
    s = jnp.where(counts, scores(q, k), -jnp.inf)
    p = jnp.exp(s - s.max(axis=-1, keepdims=True))
    o = weighted(jax.lax.reduce_precision(p, 8, 7), v) / p.sum(axis=-1, keepdims=True)
    return o.astype(jnp.bfloat16)


def causal(t: int):
    return jnp.arange(t)[None, :] <= jnp.arange(t)[:, None]


def drawn(seed: int, *shapes: tuple[int, ...], high: float = 2.0) -> list[jax.Array]:
    """Return float32 arrays of values from -high to high, the same at every call."""
    rng = np.random.default_rng(seed)
    return [jnp.array(rng.uniform(-high, high, shape), jnp.float32) for shape in shapes]


def kept(q, k, v, g):
    """Return lse and delta, each [heads, 1, T]: what a backward kernel is given for each query."""
    lse = jax.nn.logsumexp(scores(q, k), axis=-1)
    return lse[:, None, :], jnp.sum(attention(q, k, v) * g, axis=-1)[:, None, :]


def over_queries(x, y):
    """Return x.T @ y for each head."""
    return jnp.einsum("hts,htd->hsd", x, y, precision="highest")


def backward_cases() -> list[tuple]:
    """Return q, k, v, g, lse and delta for 256 queries and 384 keys, and for 128 of both."""
    cases = []
    for seed, (t, s, d) in enumerate(((256, 384, 128), (128, 128, 64), (384, 128, 128))):
        q, k, v, g = drawn(seed, (2, t, d), (2, s, d), (2, s, d), (2, t, d), high=1.0)
        cases.append((q, k, v, g, *kept(q, k, v, g)))
    return cases
