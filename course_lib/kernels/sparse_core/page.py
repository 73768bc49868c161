"""The last part of the page that ``python -m course_lib.kernels sparse_core`` prints, behind kernel.py.

Left to the library: checks of arguments, indices of other than one axis, jax.vmap, meshes, and chips without
SparseCores, such as a v5e. Rows must be f32 or int32, in a multiple of 128 columns.
"""

import functools

import jax
import jax.numpy as jnp
from jax import Array, lax

from course_lib.kernels.sparse_core.kernel import (
    gather_rows_reference,
    histogram_reference,
    launch_gather,
    launch_histogram,
    launch_scatter,
    scatter_add_reference,
)


@jax.custom_vjp
def gather_rows(table: Array, indices: Array) -> Array:
    """Return ``table[indices]``: by the kernel on a TPU, by plain JAX elsewhere."""
    return lax.platform_dependent(table, indices, tpu=launch_gather, default=gather_rows_reference)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def scatter_add(rows: Array, indices: Array, count: int) -> Array:
    """Return (count, D), whose row r is the sum of all rows with index r."""
    on_tpu, plain = (functools.partial(fn, count=count) for fn in (launch_scatter, scatter_add_reference))
    return lax.platform_dependent(rows, indices, tpu=on_tpu, default=plain)


def histogram(values: Array, bins: int) -> Array:
    """Return how many of the values are 0, 1, ... bins - 1."""
    on_tpu, plain = (functools.partial(fn, bins=bins) for fn in (launch_histogram, histogram_reference))
    return lax.platform_dependent(values, tpu=on_tpu, default=plain)


def _gather_backward(kept, g):
    table, indices = kept
    return scatter_add(g, jnp.clip(indices, 0, len(table) - 1), len(table)), None


def _scatter_backward(count, indices, g):
    is_inside = (indices >= 0) & (indices < count)
    return jnp.where(is_inside[:, None], gather_rows(g, indices), 0), None


gather_rows.defvjp(lambda table, indices: (gather_rows(table, indices), (table, indices)), _gather_backward)
scatter_add.defvjp(lambda rows, indices, count: (scatter_add(rows, indices, count), indices), _scatter_backward)
