"""The last part of the page that ``python -m course_lib.kernels linear`` prints, behind kernel.py.

Left to the library: checks of arguments, meshes, GPUs, z computed again, dx left out, and blocks for any shape.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import Array, lax

from course_lib.kernels.common.layouts import as_rows
from course_lib.kernels.linear.backward import launch_dw, launch_dx
from course_lib.kernels.linear.kernel import launch_linear, plain_linear


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def linear(x: Array, w: Array, b: Array, activation: str | None = None) -> Array:
    """Return ``act(x @ w + b)``: kernels on a TPU, in the backward pass too, plain JAX elsewhere."""
    return _run(x, w, b, activation, save=False)


def _run(x, w, b, activation, save):
    precision = lax.Precision.HIGHEST if x.dtype == jnp.float32 else None
    how = {"activation": activation, "precision": precision, "save": save}
    sizes = _sizes(math.prod(x.shape[:-1]), *w.shape)
    on_tpu = functools.partial(launch_linear, sizes=sizes, vmem_limit_bytes=64 << 20, **how)
    return lax.platform_dependent(x, w, b, tpu=on_tpu, default=functools.partial(plain_linear, **how))


def _forward(x, w, b, activation):
    y, z = _run(x, w, b, activation, save=True)
    return y, (x, w, b, z)


def _backward(activation, saved, g):
    (x, w, b, z), precision = saved, lax.Precision.HIGHEST if g.dtype == jnp.float32 else None
    how = {"precision": precision, "vmem_limit_bytes": 64 << 20}

    def on_tpu(x, w, g, z):
        dx, dz = launch_dx(w, g, z, (512, 512) if precision is None else (128, 128), activation=activation, **how)
        return dx, *launch_dw(x, dz, _sizes(x.shape[1], *g.shape), **how)

    def plain(x, w, g, z):
        layer = functools.partial(plain_linear, activation=activation, precision=precision)
        return jax.vjp(layer, x, w, b.astype(jnp.float32))[1](g)

    dx, dw, db = lax.platform_dependent(as_rows(x), w, as_rows(g), as_rows(z), tpu=on_tpu, default=plain)
    return dx.reshape(x.shape), dw, db.astype(b.dtype)


linear.defvjp(_forward, _backward)


def _sizes(*shape):  # (M, K, N): as the library chooses them on a v5e, for the shapes of docs/results.md
    return tuple(map(min, (1024, 1024, 1024) if shape == (4096, 1024, 4096) else (512, 2048, 512), shape))
