"""Plain JAX for what many projects implement: attention, grouped matmuls, scans."""

import jax
import jax.numpy as jnp


def full_attention(q, k, v, seen=None):
    """Return softmax(q kᵀ) v in f32, (..., length, depth) each. ``seen``: which keys a query sees, default all."""
    scores = jnp.einsum("...qd,...kd->...qk", q, k, preferred_element_type=jnp.float32)
    if seen is not None:
        scores = jnp.where(seen, scores, -jnp.inf)
    return jnp.einsum("...qk,...kd->...qd", jax.nn.softmax(scores, axis=-1), v).astype(q.dtype)


def causal_attention(q, k, v):
    """Return the same, where a query sees the keys up to its own place."""
    return full_attention(q, k, v, jnp.tril(jnp.ones((q.shape[-2], k.shape[-2]), bool)))


def segments_attention(q, k, v, segments):
    """Return the same, where a query sees the keys of its own segment. ``segments``: (batch, length)."""
    return full_attention(q, k, v, segments[:, None, :, None] == segments[:, None, None, :])


def by_pages(q, k_pages, v_pages, lengths, table):
    """Attend with one query per sequence to the pages that its row of ``table`` names; all in f32."""
    groups = q.shape[1] // k_pages.shape[0]

    def one(q, length, pages):
        k, v = (jnp.repeat(a[:, pages].reshape(a.shape[0], -1, a.shape[-1]), groups, 0) for a in (k_pages, v_pages))
        scores = jnp.einsum("hd,hkd->hk", q.astype(jnp.float32), k.astype(jnp.float32))
        scores = jnp.where(jnp.arange(scores.shape[1]) < length, scores, -jnp.inf)
        return jnp.einsum("hk,hkd->hd", jax.nn.softmax(scores, axis=-1), v.astype(jnp.float32))

    return jax.vmap(one)(q, lengths, table).astype(q.dtype)


def grouped(x, y, sizes):
    """Return each group of rows of x times its own matrix: (M, K), (G, K, N) -> (M, N)."""
    return jax.lax.ragged_dot(x, y, sizes)


def linear_scan(x, a, h0=None):
    """Return h[t] = a[t] h[t-1] + x[t] along the second axis of (B, T, D), and the last h."""

    def step(h, at):
        a, x = at
        h = a * h + x
        return h, h

    start = jnp.zeros_like(x[:, 0]) if h0 is None else h0
    last, all_of_them = jax.lax.scan(step, start, (jnp.moveaxis(a, 1, 0), jnp.moveaxis(x, 1, 0)))
    return jnp.moveaxis(all_of_them, 0, 1), last
