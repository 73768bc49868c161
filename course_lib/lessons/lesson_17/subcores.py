"""The arrays of the exercises on SparseCores."""

import jax
import jax.numpy as jnp
import numpy as np


def rows(seed: int, *shape: int) -> jax.Array:
    """Return values that are multiples of 1/8, so that sums of many are exact."""
    return jnp.asarray(np.random.default_rng(seed).integers(-64, 65, shape) / 8, jnp.float32)


def indices(seed: int, count: int, size: int) -> jax.Array:
    """Return ``size`` indices below ``count``, many of them several times."""
    return jnp.asarray(np.random.default_rng(seed).integers(0, count, size), jnp.int32)
