"""Kernels of products whose operands or result are stored transposed, by the caller or by XLA: see ``matmul``.

The same as its own kernels, but for the axes that meet: the blocks are turned on the way to the MXU. A result that is
wanted transposed is the product the other way round, ``y.T @ x.T``.
"""

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels.common.products import dot, zero_beyond


def kernel(
    x_ref: Num[Ref, "_bm _bk"],  # (bk, bm), block (k, i), with transpose_x
    y_ref: Num[Ref, "_bk _bn"],  # (bn, bk), block (j, k), with transpose_y
    o_ref: Num[Ref, "_bm _bn"],  # (bn, bm), block (j, i), with transpose_o
    acc_ref: Num[Ref, "_bm _bn"],
    *,
    size: int,
    transpose_x: bool,
    transpose_y: bool,
    transpose_o: bool,
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
    acc_ref[...] += product(x, y, transpose_x, transpose_y, transpose_o, precision)

    @pl.when(k == pl.num_programs(2) - 1)
    def _store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def whole_k_kernel(
    x_ref: Num[Ref, "_bm _K"],  # (K, bm) with transpose_x
    y_ref: Num[Ref, "_K _bn"],  # (bn, K) with transpose_y
    o_ref: Num[Ref, "_bm _bn"],  # (bn, bm) with transpose_o
    *,
    transpose_x: bool,
    transpose_y: bool,
    transpose_o: bool,
    precision: lax.Precision | None,
) -> None:
    """All of K in one block."""
    o = product(x_ref[...], y_ref[...], transpose_x, transpose_y, transpose_o, precision)
    o_ref[...] = o.astype(o_ref.dtype)


def product(x, y, transpose_x: bool, transpose_y: bool, transpose_o: bool, precision) -> Num[Array, "_bm _bn"]:
    """Of two blocks, in the dtype of the sum; transposed with ``transpose_o``."""
    if transpose_o:
        return dot(y, x, transpose_x=not transpose_y, transpose_y=not transpose_x, precision=precision)
    return dot(x, y, transpose_x=transpose_x, transpose_y=transpose_y, precision=precision)
