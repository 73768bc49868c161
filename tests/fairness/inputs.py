"""The arrays that the answers are asked about: numbers that tell where they come from, and random ones.

NumPy makes them: they are made whenever tests are collected, and XLA would compile a program for each shape.
"""

import jax
import jax.numpy as jnp
import numpy as np


def counted(shape: tuple[int, ...], dtype=jnp.float32) -> jax.Array:
    """0, 1, 2 ... in ``dtype``: whoever mixes up two blocks mixes up their numbers."""
    return jax.device_put(np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape))


def normal(shape: tuple[int, ...], dtype=jnp.float32, seed: int = 0) -> jax.Array:
    """Standard normal numbers, the same on every machine and every JAX."""
    return jax.device_put(np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype))


def whole(shape: tuple[int, ...], low: int, high: int, dtype=jnp.int32, seed: int = 0) -> jax.Array:
    """Whole numbers from ``low`` up to, not including, ``high``."""
    return jax.device_put(np.random.default_rng(seed).integers(low, high, shape).astype(dtype))
