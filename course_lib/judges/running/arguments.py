"""Random arguments to judge a kernel with."""

import jax
import jax.numpy as jnp
import numpy as np

_BELOW = 8  # integers from 0 to 7 fit every dtype, and so do small sums of them


def drawn(types, seed: int = 0):
    """Return random arrays for a pytree of ``jax.ShapeDtypeStruct``s; arrays in it stay as they are.

    Floats come from N(0, 1) and are rounded to their dtype, integers from 0 to 7, bools with equal odds. The same seed
    gives the same arrays.
    """
    rng = np.random.default_rng(seed)

    def one(leaf):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            return jnp.asarray(rng.standard_normal(leaf.shape), leaf.dtype)
        if leaf.dtype == jnp.bool_:
            return jnp.asarray(rng.integers(0, 2, leaf.shape) == 1)
        return jnp.asarray(rng.integers(0, _BELOW, leaf.shape), leaf.dtype)

    return jax.tree.map(one, types)
