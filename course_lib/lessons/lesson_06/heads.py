"""The function that 06.8 computes, and the kernel that it starts from."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

HEAD = 64


def normed(x):
    """Return x with each head, 64 adjacent columns, divided by its root mean square."""
    heads = x.reshape(x.shape[0], x.shape[1] // HEAD, HEAD)
    scale = jax.lax.rsqrt(jnp.mean(heads * heads, axis=2, keepdims=True) + 1e-6)
    return (heads * scale).reshape(x.shape)


def slow(x):
    def kernel(x_ref, o_ref):
        o_ref[...] = normed(x_ref[...])

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
