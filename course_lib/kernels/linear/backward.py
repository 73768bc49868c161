"""The gradient of ``y = act(x @ w + b)`` in two kernels, given g, the cotangent of y, and z = x @ w + b.

    dz = g * act'(z)        dx = dz @ w.T        dw = x.T @ dz        db = sum of the rows of dz

Cost   FLOPs 4*M*N*K;  HBM bytes about (3*M*N + N*K*ceil(M/bm) + M*K) * itemsize for dx and dz, and
       (M*N + M*K*ceil(N/bn) + K*N) * itemsize for dw and db
VMEM   2 * (3*bm*N + bk*N + bm*bk) * itemsize for the first; for the second as a matmul with M as its reduction

The first kernel computes a block of rows of dz when it first needs it, keeps it in VMEM for all the blocks of dx, and
writes it out: dz is never computed twice. The second sums the rows of dz while they lie in VMEM for dw.
"""

import functools

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Ref
from course_lib.kernels.common.activations import slope
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, zero_beyond


def cotangent_of_z(activation: str, g: Array, z: Array) -> Array:
    """Return dz in the dtype of g, computed in f32."""
    return (g.astype(jnp.float32) * slope(activation, z.astype(jnp.float32))).astype(g.dtype)


def plain_gradients(x, w, g, z=None, *, activation, precision) -> tuple[Array, Array, Array]:
    """Return dx, dw and db of matrices by plain JAX; ``z`` None: there is no activation."""
    dz = g if z is None else cotangent_of_z(activation, g, z)
    dx = dot(dz, w, transpose_y=True, precision=precision).astype(x.dtype)
    dw = dot(x, dz, transpose_x=True, precision=precision).astype(w.dtype)
    return dx, dw, jnp.sum(dz.astype(jnp.float32), axis=0)


def _dx_kernel(
    g_ref: Float[Ref, "bm N"],
    z_ref: Float[Ref, "bm N"],
    w_ref: Float[Ref, "bk N"],
    dx_ref: Float[Ref, "bm bk"],
    dz_ref: Float[Ref, "bm N"],  # stays put while the columns of dx run
    *,
    activation: str,
    precision,
) -> None:
    def product(dz):
        return dot(dz, w_ref[...], transpose_y=True, precision=precision).astype(dx_ref.dtype)

    # One line would do, but with two branches the MXU starts on the first rows of dz while the rest is computed.
    @pl.when(pl.program_id(1) == 0)
    def _first():
        dz = cotangent_of_z(activation, g_ref[...], z_ref[...])
        dz_ref[...] = dz
        dx_ref[...] = product(dz)

    @pl.when(pl.program_id(1) > 0)
    def _rest():
        dx_ref[...] = product(dz_ref[...])


def launch_dx(w, g, z, sides, *, activation, precision, vmem_limit_bytes) -> tuple[Array, Array]:
    """Return dx and dz by a kernel, with blocks of ``sides`` (rows, columns) of dx."""
    (m, n), k = g.shape, w.shape[0]
    bm, bk = min(sides[0], m), min(sides[1], k)
    row = pl.BlockSpec((bm, n), lambda i, j: (i, 0))
    return pl.pallas_call(
        functools.partial(_dx_kernel, activation=activation, precision=precision),
        out_shape=[out_type(g, (m, k), g.dtype), out_type(g, (m, n), g.dtype)],
        grid=(pl.cdiv(m, bm), pl.cdiv(k, bk)),
        in_specs=[row, row, pl.BlockSpec((bk, n), lambda i, j: (j, 0))],
        out_specs=[pl.BlockSpec((bm, bk), lambda i, j: (i, j)), row],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=vmem_limit_bytes
        ),
        name="linear_dx",
    )(g, z, w)


def _dw_kernel(
    x_ref: Float[Ref, "bk bm"],  # rows k of x, columns i
    dz_ref: Float[Ref, "bk bn"],  # rows k of dz, columns j
    dw_ref: Float[Ref, "bm bn"],
    db_ref: Float32[Ref, "1 bn"],  # stays put while i and k run
    acc_ref: Float32[Ref, "bm bn"],
    *,
    size: int,  # of the reduction: rows of x
    precision,
) -> None:
    i, k = pl.program_id(1), pl.program_id(2)
    x, dz = x_ref[...], dz_ref[...]
    if size % x.shape[0]:
        x, dz = zero_beyond(x, 0, size - k * x.shape[0]), zero_beyond(dz, 0, size - k * x.shape[0])

    @pl.when(k == 0)
    def _zero():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    @pl.when((k == 0) & (i == 0))
    def _zero_db():
        db_ref[...] = jnp.zeros_like(db_ref)

    @pl.when(i == 0)
    def _sum_rows():
        db_ref[...] += jnp.sum(dz.astype(jnp.float32), axis=0, keepdims=True)

    acc_ref[...] += dot(x, dz, transpose_x=True, precision=precision)

    @pl.when(k == pl.num_programs(2) - 1)
    def _store():
        dw_ref[...] = acc_ref[...].astype(dw_ref.dtype)


def _whole_dw_kernel(x_ref, dz_ref, dw_ref, db_ref, *, precision) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _sum_rows():
        db_ref[...] = jnp.sum(dz_ref[...].astype(jnp.float32), axis=0, keepdims=True)

    dw_ref[...] = dot(x_ref[...], dz_ref[...], transpose_x=True, precision=precision).astype(dw_ref.dtype)


def launch_dw(x, dz, sizes, *, precision, vmem_limit_bytes) -> tuple[Array, Array]:
    """Return dw and db by a kernel. j runs slowest, and i is not parallel: its first iteration sums the block of db."""
    (size, m), n = x.shape, dz.shape[1]
    bm, bk, bn = sizes
    if bk == size:
        kernel, scratch = functools.partial(_whole_dw_kernel, precision=precision), []
    else:
        kernel = functools.partial(_dw_kernel, size=size, precision=precision)
        scratch = [pltpu.VMEM((bm, bn), jnp.float32)]
    dw, db = pl.pallas_call(
        kernel,
        out_shape=[out_type(x, (m, n), x.dtype), out_type(x, (1, n), jnp.float32)],
        grid=(pl.cdiv(n, bn), pl.cdiv(m, bm), pl.cdiv(size, bk)),
        in_specs=[pl.BlockSpec((bk, bm), lambda j, i, k: (k, i)), pl.BlockSpec((bk, bn), lambda j, i, k: (k, j))],
        out_specs=[pl.BlockSpec((bm, bn), lambda j, i, k: (i, j)), pl.BlockSpec((1, bn), lambda j, i, k: (0, j))],
        scratch_shapes=scratch,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary"), vmem_limit_bytes=vmem_limit_bytes
        ),
        name="linear_dw",
    )(x, dz)
    return dw, db[0]
