"""The kernels for which several exercises of lesson 4 choose blocks."""

import jax.numpy as jnp


def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def product_kernel(x_ref, w_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
