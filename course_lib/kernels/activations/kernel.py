"""Activations of each element: ``o[i] = gelu(x[i])`` and its siblings.

    relu       max(z, 0)                                                     slope 0 at z = 0
    gelu       z * Phi(z), Phi the cumulative normal distribution
    gelu_tanh  z / 2 * (1 + tanh(sqrt(2 / pi) * (z + 0.044715 * z**3)))      Hendrycks and Gimpel, arXiv 1606.08415
    silu       z / (1 + exp(-z))

Cost   HBM bytes 2 * size * itemsize; of the gradient 3 * size * itemsize: g and x are read, dx is written
VMEM   as in ``elementwise``, whose ``launch`` runs these kernels too
"""

import jax
import jax.numpy as jnp

from course_lib.arrays import Array, Float, Ref
from course_lib.kernels.common.activations import ACTIVATIONS


def relu_reference(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return what ``relu`` must compute."""
    return jax.nn.relu(x)


def gelu_reference(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return what ``gelu`` must compute: in f32, rounded once."""
    return jax.nn.gelu(x.astype(jnp.float32), approximate=False).astype(x.dtype)


def gelu_tanh_reference(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return what ``gelu_tanh`` must compute: in f32, rounded once."""
    return jax.nn.gelu(x.astype(jnp.float32), approximate=True).astype(x.dtype)


def silu_reference(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return what ``silu`` must compute: in f32, rounded once."""
    return jax.nn.silu(x.astype(jnp.float32)).astype(x.dtype)


def activated(x, *, name):
    """Return the activation of a block or an array: in f32, rounded once."""
    return ACTIVATIONS[name].apply(x.astype(jnp.float32)).astype(x.dtype)


def pulled_back(g, x, *, name):
    """Return the gradient of x for a gradient g of the activation of x."""
    return (g.astype(jnp.float32) * ACTIVATIONS[name].slope(x.astype(jnp.float32))).astype(x.dtype)


def _kernel(x_ref: Float[Ref, "*block"], o_ref: Float[Ref, "*block"], *, name):
    o_ref[...] = activated(x_ref[...], name=name)


def _backward_kernel(g_ref: Float[Ref, "*block"], x_ref: Float[Ref, "*block"], dx_ref: Float[Ref, "*block"], *, name):
    dx_ref[...] = pulled_back(g_ref[...], x_ref[...], name=name)


KERNELS = _kernel, _backward_kernel
