"""Grouped products in plain JAX, for platforms without a kernel: each group's rows, all others 0, times its matrix.

``jax.lax.ragged_dot`` does the same on a CPU, but it has no second derivative and cannot be mapped.
"""

import jax.numpy as jnp

from course_lib.arrays import Array, Float, Float32
from course_lib.kernels.grouped.visits import ends_of


def plain_product(x, w, sizes, *, transpose_w=False, precision) -> Float32[Array, "T N"]:
    """Return ``x_e @ w[e]``, not rounded, for x (T, K) and w (E, K, N), or (E, N, K)."""
    w = w.swapaxes(1, 2) if transpose_w else w
    mine = _by_group(x, sizes)
    return jnp.einsum("etk,ekn->tn", mine, w, precision=precision, preferred_element_type=jnp.float32)


def plain_gradient(x, g, sizes, *, precision) -> Float32[Array, "E K N"]:
    """Return ``x_e.T @ g_e`` for each group, not rounded."""
    mine = _by_group(x, sizes)
    return jnp.einsum("etk,tn->ekn", mine, g, precision=precision, preferred_element_type=jnp.float32)


def _by_group(x, sizes) -> Float[Array, "E T K"]:
    ends, row = ends_of(sizes, x.shape[0]), jnp.arange(x.shape[0])
    mine = (row >= jnp.roll(ends, 1).at[:1].set(0)[:, None]) & (row < ends[:, None])
    return jnp.where(mine[:, :, None], x, jnp.zeros_like(x))
