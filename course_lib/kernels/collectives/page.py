"""The last part of the page that ``python -m course_lib.kernels collectives`` prints, behind kernel.py.

Left to the library: checks of arguments, arrays of other than two axes, jax.vmap, and blocks for any shape. Half of a
device's rows must be 512 at most, or a multiple of 512, and so must the columns.
"""

import functools

import jax
from jax import Array, lax

from course_lib.kernels.collectives.kernel import (
    all_gather_matmul_reference,
    all_gather_reference,
    launch,
    matmul_reduce_scatter_reference,
    reduce_scatter_reference,
)
from course_lib.kernels.common.outputs import varying
from course_lib.kernels.common.products import dot


def all_gather(x: Array, axis_name: str) -> Array:
    """Return the rows of all devices of a mesh axis: the kernel on a TPU, XLA's collective elsewhere."""
    return _moved(*varying(axis_name, x), False, axis_name)


def reduce_scatter(x: Array, axis_name: str) -> Array:
    """Return this device's rows of the sum over all devices. Call it inside ``jax.shard_map``, as the others."""
    return _moved(*varying(axis_name, x), True, axis_name)


def all_gather_matmul(x: Array, w: Array, axis_name: str, precision: str = "highest") -> Array:
    """Return ``all_gather(x, axis_name) @ w``."""
    return _with_matmul(*varying(axis_name, x, w), False, axis_name, precision if x.dtype == "float32" else None)[0]


def matmul_reduce_scatter(x: Array, w: Array, axis_name: str, precision: str = "highest") -> Array:
    """Return ``reduce_scatter(x @ w, axis_name)``."""
    return _with_matmul(*varying(axis_name, x, w), True, axis_name, precision if x.dtype == "float32" else None)[0]


def _run(scatter, plain, axis_name, x, *w, **how):
    n, columns = lax.axis_size(axis_name), (w or (x,))[0].shape[1]
    in_jax = functools.partial(plain, axis_name=axis_name, **how)
    if n == 1:
        return in_jax(x, *w)
    rows = x.shape[0] // (n if scatter else 1)
    sizes = min(rows // (1 if rows % 2 else 2), 512), min(columns, 512)
    on_tpu = functools.partial(launch, scatter, axis_name=axis_name, sizes=sizes, vmem_limit_bytes=64 << 20, **how)
    return lax.platform_dependent(x, *w, tpu=on_tpu, default=in_jax)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _moved(x, scatter, axis_name):
    return _run(scatter, reduce_scatter_reference if scatter else all_gather_reference, axis_name, x)


_moved.defvjp(lambda x, *how: (_moved(x, *how), None), lambda scatter, name, _, g: (_moved(g, not scatter, name),))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _with_matmul(x, w, scatter, axis_name, precision):
    """Return the result, and the rows of x of all devices that it was computed from."""
    if scatter:
        return _run(True, matmul_reduce_scatter_reference, axis_name, x, w, precision=precision), x

    def plain(x, w, **how):
        return all_gather_matmul_reference(x, w, **how), all_gather_reference(x, axis_name)

    return _run(False, plain, axis_name, x, w, precision=precision)


def _forward(x, w, *how):
    o, rows = _with_matmul(x, w, *how)
    return (o, rows), (rows, w)


def _backward(scatter, axis_name, precision, saved, gradients):
    (rows, w), (g, _) = saved, gradients
    dx, g_rows = _with_matmul(g, w.T, not scatter, axis_name, precision)
    return dx, dot(rows, g_rows, transpose_x=True, precision=precision).astype(w.dtype)


_with_matmul.defvjp(_forward, _backward)
