"""Random values for the projects, the same at every call."""

import jax
import jax.numpy as jnp
import numpy as np


def uniform(seed: int, *shape: int, low: float = -1.0, high: float = 1.0, dtype="float32") -> jax.Array:
    """Return values between ``low`` and ``high``."""
    return jnp.asarray(np.random.default_rng(seed).uniform(low, high, shape), dtype)


def integers(seed: int, *shape: int, low: int, high: int, dtype="int32") -> jax.Array:
    """Return integers from ``low`` to ``high`` - 1."""
    return jnp.asarray(np.random.default_rng(seed).integers(low, high, shape), dtype)
