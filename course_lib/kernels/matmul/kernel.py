"""Matrix multiplication: ``o = x @ y``, for f32 and bf16; and for int8, accumulated in int32.

Cost   FLOPs 2*M*N*K;  HBM bytes (M*K*ceil(N/bn) + K*N*ceil(M/bm) + M*N) * itemsize; but x is read only once if all of
       K is one block, and so is y if all of K and all of N are
VMEM   2 * (bm*bk + bk*bn + bm*bn) * itemsize, each block held twice; and 4*bm*bn for the accumulator if K is cut

The grid is (i, j, k), k innermost: a block of o accumulates in f32 (int32 for int8) from step to step.
"""

import dataclasses
import functools

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Num, Ref
from course_lib.kernels.common.layouts import as_stored, is_by_columns
from course_lib.kernels.common.legal import LANES, SUBLANES, check
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, product_dtype, sum_dtype, zero_beyond


def reference(x: Num[Array, "M K"], y: Num[Array, "K N"]) -> Num[Array, "M N"]:
    """Return what ``matmul`` must compute: products accumulated in f32 (int32 for int8), rounded once."""
    return jnp.dot(x, y, precision="highest", preferred_element_type=sum_dtype(x.dtype)).astype(product_dtype(x.dtype))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """Block sizes, cut down to a smaller array. They change the speed, not the result."""

    bm: int = 512  # rows: a multiple of 8 (of 32 for int8, of 128 if x is stored transposed)
    bk: int = 1024  # of the reduction: a multiple of 128
    bn: int = 512  # columns: a multiple of 128

    def __post_init__(self):
        check(self, bm=SUBLANES, bk=LANES, bn=LANES)


def _kernel(
    x_ref: Num[Ref, "_bm _bk"],  # block (i, k); if x is taken transposed, (bk, bm), and likewise y and o
    y_ref: Num[Ref, "_bk _bn"],  # block (k, j)
    o_ref: Num[Ref, "_bm _bn"],  # block (i, j): stays put while k runs
    acc_ref: Num[Ref, "_bm _bn"],  # scratch: survives from one grid step to the next
    *,
    left,  # a function of k: how many elements of the reduction are left from block k on; None if bk divides K
    product,
) -> None:
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x, y = x_ref[...], y_ref[...]
    acc_ref[...] += product(x, y, left=left and left(k))

    @pl.when(k == pl.num_programs(2) - 1)
    def _store():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)  # rounded once, at the last step


def _whole_k_kernel(x_ref: Num[Ref, "_bm _K"], y_ref: Num[Ref, "_K _bn"], o_ref: Num[Ref, "_bm _bn"], *, product):
    """Multiply with all of K in one block: one straight-line program, whose loads, products and stores overlap."""
    o_ref[...] = product(x_ref[...], y_ref[...]).astype(o_ref.dtype)


def _product(x, y, transpose_x, transpose_y, transpose_o, precision, left=None):
    """Return ``x @ y`` of two blocks; x, y and the result may each be stored transposed: o.T is ``y.T @ x.T``."""
    if left is not None:
        x, y = zero_beyond(x, 0 if transpose_x else 1, left), zero_beyond(y, 1 if transpose_y else 0, left)
    if transpose_o:
        return dot(y, x, transpose_x=not transpose_y, transpose_y=not transpose_x, precision=precision)
    return dot(x, y, transpose_x=transpose_x, transpose_y=transpose_y, precision=precision)


def launch(x, y, sizes, *, vmem_limit_bytes=None, transpose_x=False, transpose_y=False, precision=None) -> Array:
    """Run the kernel on one TPU with blocks of ``sizes`` (bm, bk, bn), which must not be larger than x and y."""
    (x, transpose_x), (y, transpose_y) = as_stored(x, transpose_x), as_stored(y, transpose_y)
    (m, k_size), n = x.shape[::-1] if transpose_x else x.shape, y.shape[0 if transpose_y else 1]
    transpose_o = is_by_columns((m, n))
    bm, bk, bn = sizes
    transposed = {"transpose_x": transpose_x, "transpose_y": transpose_y, "transpose_o": transpose_o}
    product = functools.partial(_product, **transposed, precision=precision)
    if bk == k_size:
        kernel, scratch = functools.partial(_whole_k_kernel, product=product), []
    else:
        left = (lambda k: k_size - k * bk) if k_size % bk else None
        kernel = functools.partial(_kernel, left=left, product=product)
        scratch = [pltpu.VMEM((bn, bm) if transpose_o else (bm, bn), sum_dtype(x.dtype))]

    def spec(block, index, transposed):
        return pl.BlockSpec(block[::-1], lambda *step: index(*step)[::-1]) if transposed else pl.BlockSpec(block, index)

    o = pl.pallas_call(
        kernel,
        out_shape=out_type(x, (n, m) if transpose_o else (m, n), product_dtype(x.dtype)),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(k_size, bk)),
        in_specs=[
            spec((bm, bk), lambda i, j, k: (i, k), transpose_x),
            spec((bk, bn), lambda i, j, k: (k, j), transpose_y),
        ],
        out_specs=spec((bm, bn), lambda i, j, k: (i, j), transpose_o),
        scratch_shapes=scratch,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"), vmem_limit_bytes=vmem_limit_bytes
        ),
        name="matmul",
    )(x, y)
    return o.T if transpose_o else o


def gradient_products(x, y, g, multiply, *, transpose_x=False, transpose_y=False) -> tuple[Array, Array]:
    """Return dx = g @ y.T and dy = x.T @ g. ``multiply``'s last argument: which forward axes its m, k, n are."""
    dx = multiply(y, g, transpose_y, True, "knm") if transpose_x else multiply(g, y, False, not transpose_y, "mnk")
    dy = multiply(g, x, True, transpose_x, "nmk") if transpose_y else multiply(x, g, not transpose_x, False, "kmn")
    return dx, dy
