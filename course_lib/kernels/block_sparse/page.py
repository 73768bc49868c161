"""The last part of the page that ``python -m course_lib.kernels block_sparse`` prints, behind kernel.py.

Left to the library: sdd, which computes blocks of a dense product, so the gradient of values is plain JAX here;
checks of arguments, meshes, jax.vmap, blocks for any shape and chip, and an N that panels do not divide: b is padded.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import pallas as pl

from course_lib.kernels.block_sparse.kernel import Blocks, Form, launch_dsd
from course_lib.kernels.block_sparse.pattern import Pattern
from course_lib.kernels.block_sparse.plain import plain_dsd, plain_sdd


def from_mask(mask: np.ndarray) -> Pattern:
    """Return the pattern that keeps the blocks where ``mask`` (R, C) is true, row by row."""
    rows, cols = np.nonzero(mask)
    return Pattern(jnp.asarray(rows, jnp.int32), jnp.asarray(cols, jnp.int32), np.shape(mask))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def dsd(
    values: Array, pattern: Pattern, b: Array, transpose_a=False, blocks: Blocks | None = None, precision="highest"
) -> Array:
    """Return ``A @ b``, or ``A.T @ b``, for A of ``values`` (Z, h, w) and b (K, N): on a TPU by the kernel."""
    how = {"transpose_a": transpose_a, "precision": lax.Precision(precision) if b.dtype == jnp.float32 else None}
    on_tpu = functools.partial(_on_tpu, bn=(blocks or Blocks()).bn, **how)
    return lax.platform_dependent(values, pattern, b, tpu=on_tpu, default=functools.partial(plain_dsd, **how))


def _on_tpu(values, pattern, b, *, transpose_a, bn, precision):
    """Run the kernel on b, padded to panels of equal width."""
    (count, h, w), n = values.shape, b.shape[1]
    bn = pl.cdiv(pl.cdiv(n, pl.cdiv(n, bn)), 128) * 128
    most = 2**27 // (h * w * bn * (1 if precision is None else 6))  # a step is at most 2**27 multiplications
    per_step = pl.cdiv(count, pl.cdiv(count, min(16, max(1, most))))
    form = Form(transpose_a, False, False, *((w, h) if transpose_a else (h, w)))
    b = jnp.pad(b, ((0, 0), (0, -n % bn)))
    how = {"bn": bn, "per_step": per_step, "precision": precision, "vmem": 64 << 20}
    return launch_dsd(values, pattern.T if transpose_a else pattern, b, form, **how)[:, :n]


def _backward(transpose_a, _, precision, saved, g):
    values, pattern, b = saved
    left, right = (b, g) if transpose_a else (g, b)
    level = lax.Precision(precision) if b.dtype == jnp.float32 else None
    of_values = plain_sdd(left, right, pattern, transpose_b=True, precision=level)
    return of_values, None, dsd(values, pattern, g, not transpose_a, None, precision)


dsd.defvjp(lambda *args: (dsd(*args), args[:3]), _backward)
