"""Kernels of products whose operands are stored transposed, as the gradient of a product needs them: see ``matmul``.

The same as its own kernels, but for the axes that meet: the blocks are turned on the way to the MXU.
"""

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Num, Ref
from course_lib.kernels.products import dot, zero_beyond


def kernel(
    x_ref: Num[Ref, "_bm _bk"],  # (bk, bm), block (k, i), with transpose_x
    y_ref: Num[Ref, "_bk _bn"],  # (bn, bk), block (j, k), with transpose_y
    o_ref: Num[Ref, "bm bn"],
    acc_ref: Num[Ref, "bm bn"],
    *,
    size: int,
    transpose_x: bool,
    transpose_y: bool,
    precision: lax.Precision | None,
) -> None:
    """K in several blocks."""
    k, x_axis, y_axis = pl.program_id(2), 0 if transpose_x else 1, 1 if transpose_y else 0
    bk = x_ref.shape[x_axis]

    @pl.when(k == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x, y = x_ref[...], y_ref[...]
    if size % bk:
        x, y = zero_beyond(x, x_axis, size - k * bk), zero_beyond(y, y_axis, size - k * bk)
    acc_ref[...] += dot(x, y, transpose_x=transpose_x, transpose_y=transpose_y, precision=precision)

    @pl.when(k == pl.num_programs(2) - 1)
    def _store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def whole_k_kernel(
    x_ref: Num[Ref, "_bm _K"],  # (K, bm) with transpose_x
    y_ref: Num[Ref, "_K _bn"],  # (bn, K) with transpose_y
    o_ref: Num[Ref, "bm bn"],
    *,
    transpose_x: bool,
    transpose_y: bool,
    precision: lax.Precision | None,
) -> None:
    """All of K in one block."""
    product = dot(x_ref[...], y_ref[...], transpose_x=transpose_x, transpose_y=transpose_y, precision=precision)
    o_ref[...] = product.astype(o_ref.dtype)
