"""A linear layer in one kernel: ``y = act(z)`` with ``z = x @ w + b``.

Cost   FLOPs 2*M*N*K;  HBM bytes (M*K + K*N*ceil(M/bm) + M*N) * itemsize, M*N * itemsize more if z is saved
VMEM   2 * (bm*bk + bk*bn + bm*bn) * itemsize, and 2*bm*bn * itemsize if z is saved; 4*bm*bn more if K is cut

Bias and activation are applied in f32 to a block of the sum in VMEM; with all of K in one block, while the MXU works.
"""

import functools
import math

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Ref
from course_lib.kernels.common.activations import apply
from course_lib.kernels.common.layouts import as_rows, is_by_columns
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, zero_beyond


def reference(
    x: Float[Array, "*batch K"], w: Float[Array, "K N"], b: Float[Array, " N"], *, activation: str | None = None
) -> Float[Array, "*batch N"]:
    """Return what ``linear`` must compute: product, bias and activation in f32, rounded once."""
    z = jnp.dot(x, w, precision="highest", preferred_element_type=jnp.float32) + b.astype(jnp.float32)
    return apply(activation, z).astype(x.dtype)


def _kernel(
    x_ref: Float[Ref, "bm bk"],  # block (i, k)
    w_ref: Float[Ref, "_bk _bn"],  # block (k, j); (bn, bk), block (j, k), with transpose_w
    b_ref: Float[Ref, "1 bn"],  # block (0, j)
    y_ref: Float[Ref, "bm bn"],  # block (i, j): stays put while k runs
    z_ref: Float[Ref, "bm bn"] | None,  # the same, if z is saved
    acc_ref: Float32[Ref, "bm bn"],  # scratch: the product so far
    *,
    size: int,  # of the reduction, which the last bk may reach past
    activation: str,
    precision,
    transpose_w: bool,
) -> None:
    k, bk = pl.program_id(2), x_ref.shape[1]

    @pl.when(k == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x, w = x_ref[...], w_ref[...]
    if size % bk:
        x, w = zero_beyond(x, 1, size - k * bk), zero_beyond(w, int(transpose_w), size - k * bk)
    acc_ref[...] += dot(x, w, transpose_y=transpose_w, precision=precision)

    @pl.when(k == pl.num_programs(2) - 1)
    def _store():
        _finish(acc_ref[...], b_ref, y_ref, z_ref, activation)


def _whole_k_kernel(x_ref, w_ref, b_ref, y_ref, z_ref, *, activation, precision, transpose_w) -> None:
    product = dot(x_ref[...], w_ref[...], transpose_y=transpose_w, precision=precision)
    _finish(product, b_ref, y_ref, z_ref, activation)


def _finish(product: Float32[Array, "bm bn"], b_ref, y_ref, z_ref, activation) -> None:
    z = product + b_ref[...].astype(jnp.float32)
    y_ref[...] = apply(activation, z).astype(y_ref.dtype)
    if z_ref is not None:
        z_ref[...] = z.astype(z_ref.dtype)


def launch_linear(x, w, b, sizes, *, activation, precision=None, save=False, vmem_limit_bytes=None):
    """Run the kernel on one TPU with blocks of ``sizes`` (bm, bk, bn). Returns y, or (y, z) with ``save``."""
    m, (k, n) = math.prod(x.shape[:-1]), w.shape
    bm, bk, bn = sizes
    if bk == k:
        kernel, scratch = _whole_k_kernel, []
    else:
        kernel, scratch = functools.partial(_kernel, size=k), [pltpu.VMEM((bm, bn), jnp.float32)]
    result, block = out_type(x, (m, n), x.dtype), pl.BlockSpec((bm, bn), lambda i, j, k: (i, j))
    if transpose_w := is_by_columns(w.shape):  # XLA stores w column by column: the view of its transpose is free
        w, w_spec = w.T, pl.BlockSpec((bn, bk), lambda i, j, k: (j, k))
    else:
        w_spec = pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))
    x_spec, b_spec = pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((1, bn), lambda i, j, k: (0, j))
    y, z = pl.pallas_call(
        functools.partial(kernel, activation=activation, precision=precision, transpose_w=transpose_w),
        out_shape=(result, result if save else None),
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), pl.cdiv(k, bk)),
        in_specs=[x_spec, w_spec, b_spec],
        out_specs=(block, block if save else None),
        scratch_shapes=scratch,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"), vmem_limit_bytes=vmem_limit_bytes
        ),
        name="linear",
    )(as_rows(x), w, b.reshape(1, n))
    shape = (*x.shape[:-1], n)
    return (y.reshape(shape), z.reshape(shape)) if save else y.reshape(shape)


def plain_linear(x, w, b, *, activation, precision=None, save=False):
    """Return y, or (y, z) with ``save``, by plain JAX."""
    z = dot(as_rows(x), w, precision=precision).reshape(*x.shape[:-1], w.shape[1]) + b.astype(jnp.float32)
    y = apply(activation, z).astype(x.dtype)
    return (y, z.astype(x.dtype)) if save else y
