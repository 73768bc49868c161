"""The gradient of softmax: ``dx[i, j] = y[i, j] * (g[i, j] - sum_k g[i, k] * y[i, k])``.

Cost   FLOPs 4 * M * N;  HBM bytes 3 * M * N * itemsize: y and g read once, dx written once
VMEM   bm * N * (6 * itemsize + 8)

Nothing but the result y is kept from the forward pass. ``softmax.softmax`` calls these kernels; blocks as there. Rows
too long for VMEM are read twice: HBM bytes are 5 * M * N * itemsize then.
"""

import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Float, Float32, Ref
from course_lib.kernels.common import row_blocks


def plain(y: Float[Array, "*shape"], g: Float[Array, "*shape"], axis: int = -1) -> Float[Array, "*shape"]:
    """The same in plain JAX, which the kernels must compute: from the softmax y and the gradient g of its result."""
    dtype, y, g = y.dtype, y.astype(jnp.float32), g.astype(jnp.float32)
    return (y * (g - jnp.sum(g * y, axis=axis, keepdims=True))).astype(dtype)


def whole_kernel(
    y_ref: Float[Ref, "*block"], g_ref: Float[Ref, "*block"], dx_ref: Float[Ref, "*block"], *, axis: int
) -> None:
    """All of the axis in a block."""
    y, g = y_ref[...].astype(jnp.float32), g_ref[...].astype(jnp.float32)
    dx_ref[...] = (y * (g - jnp.sum(g * y, axis=axis, keepdims=True))).astype(dx_ref.dtype)


def columns_kernel(
    y_ref: Float[Ref, "bm bn"],  # block (i, j), in both passes
    g_ref: Float[Ref, "bm bn"],  # block (i, j), in both passes
    dx_ref: Float[Ref, "bm bn"],  # block (i, j) in the second pass; block (i, 0) waits during the first
    sum_ref: Float32[Ref, "bm 1"],  # the sum of g * y so far
    *,
    columns: int,
) -> None:
    """Rows in pieces: the first pass takes the sum of g * y, the second the result."""
    second_pass, j = pl.program_id(1), pl.program_id(2)
    y, g = y_ref[...].astype(jnp.float32), g_ref[...].astype(jnp.float32)

    @pl.when((second_pass == 0) & (j == 0))
    def _zero():
        sum_ref[...] = jnp.zeros_like(sum_ref)

    @pl.when(second_pass == 0)
    def _sum():
        sum_ref[...] += jnp.sum(row_blocks.inside(g * y, j, columns, 0.0), axis=-1, keepdims=True)

    @pl.when(second_pass == 1)
    def _result():
        dx_ref[...] = (y * (g - sum_ref[...])).astype(dx_ref.dtype)
