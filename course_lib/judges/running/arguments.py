"""Numbers to judge a kernel with, where nobody brings any."""

import jax
import jax.numpy as jnp
import numpy as np

_BELOW = 8  # integers are drawn from 0 to 7: they fit every dtype, and small sums of them


def drawn(types, seed: int = 0):
    """Arrays for a pytree of ``jax.ShapeDtypeStruct``s; what is an array already stays as it is.

    Floats are drawn from N(0, 1) and rounded to their dtype, integers from 0 to 7, bools by a coin. The same seed gives
    the same numbers.
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
