"""The function that 06.6 computes, and the kernel that it starts from."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def accepted(a, p, x, s):
    """Return a ** p * sin(x) / s, with each of the three factors rounded to bfloat16."""
    return _as_bfloat16(a**p) * _as_bfloat16(jnp.sin(x)) * _as_bfloat16(1 / s)


def _as_bfloat16(part):
    return part.astype(jnp.bfloat16).astype(jnp.float32)


def calling(kernel: Callable) -> Callable:
    """Return a function that calls ``kernel`` on a, p, x and s."""

    def ripple(a, p, x, s):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype))(a, p, x, s)

    return ripple


def _slow_kernel(a_ref, p_ref, x_ref, s_ref, o_ref):
    o_ref[...] = a_ref[...] ** p_ref[...] * jnp.sin(x_ref[...]) / s_ref[...]


slow = calling(_slow_kernel)
