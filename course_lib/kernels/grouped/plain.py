"""Grouped products and the gradient of their matrices in plain JAX: for platforms without a kernel.

Each group's rows, with zeros in place of all others, times its matrix: so ``jax.lax.ragged_dot`` computes on a CPU; but
that has no second derivative, and cannot be mapped.
"""

import jax.numpy as jnp
from jax import lax

from course_lib.arrays import Array, Float, Float32, Int32
from course_lib.kernels.grouped.visits import ends_of


def product(
    x: Float[Array, "T K"], w: Float[Array, "E K N"], sizes: Int32[Array, " E"], precision: lax.Precision | None
) -> Float32[Array, "T N"]:
    """The grouped product, not rounded."""
    return jnp.einsum("etk,ekn->tn", _by_group(x, sizes), w, precision=precision, preferred_element_type=jnp.float32)


def matrices(
    x: Float[Array, "T K"], g: Float[Array, "T N"], sizes: Int32[Array, " E"], precision: lax.Precision | None
) -> Float32[Array, "E K N"]:
    """``x_e.T @ g_e`` for each group, not rounded."""
    return jnp.einsum("etk,tn->ekn", _by_group(x, sizes), g, precision=precision, preferred_element_type=jnp.float32)


def _by_group(x: Array, sizes: Array) -> Float[Array, "E T K"]:
    ends = ends_of(sizes, x.shape[0])
    row = jnp.arange(x.shape[0])
    mine = (row >= jnp.roll(ends, 1).at[:1].set(0)[:, None]) & (row < ends[:, None])
    return jnp.where(mine[:, :, None], x, jnp.zeros_like(x))
