"""The maximum of each row, right and with each of two mistakes; for exercises 11.2 and 11.7."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def with_mistakes(begin: float = -jnp.inf, beyond: float = -jnp.inf) -> Callable:
    """Return a kernel x[M, N] -> [M, 1] whose maximum starts at ``begin`` and uses ``beyond`` past the last column."""

    def largest(x):
        n = x.shape[1]

        def kernel(x_ref, o_ref):
            j = pl.program_id(1)

            @pl.when(j == 0)
            def first():
                o_ref[...] = jnp.full_like(o_ref, begin)

            column = 128 * j + jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1)
            inside = jnp.where(column < n, x_ref[...], beyond)
            o_ref[...] = jnp.maximum(o_ref[...], jnp.max(inside, axis=1, keepdims=True))

        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype),
            grid=(pl.cdiv(x.shape[0], 8), pl.cdiv(n, 128)),
            in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
            out_specs=pl.BlockSpec((8, 1), lambda i, j: (i, 0)),
        )(x)

    return largest


def reference(x):
    return jnp.max(x, axis=1, keepdims=True)
