"""The gradient of ``y = act(x @ w + b)`` in two kernels, given g, the cotangent of y, and z = x @ w + b.

    dz = g * act'(z)        dx = dz @ w.T        dw = x.T @ dz        db = sum of the rows of dz

Cost   FLOPs 4*M*N*K;  HBM bytes about (3*M*N + N*K*ceil(M/bm) + M*K) * itemsize for dx and dz, and
       (M*N + M*K*ceil(N/bn) + K*N) * itemsize for dw and db
VMEM   2 * (3*bm*N + bk*N + bm*bk) * itemsize for the first; for the second as a matmul with M as its reduction

The first kernel makes a block of rows of dz when it first needs it, keeps it in VMEM for all the blocks of dx, and
writes it out on the way: dz is never computed twice. The second sums the rows of dz while they lie in VMEM for dw.
Where a block of rows of z does not fit into VMEM, dz is an elementwise kernel and dx a matmul. Where nobody asks for
dx, as for the first layer of a network, there is the elementwise kernel alone.
"""

import functools
import math

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Ref
from course_lib.kernels import activations, matmul
from course_lib.kernels.common import chip
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot, passes, zero_beyond
from course_lib.kernels.dispatch import mesh_rules
from course_lib.kernels.dispatch.launch import Op, fixed
from course_lib.kernels.linear import mosaic_gpu as linear_gpu
from course_lib.kernels.matmul import blocks as matmul_blocks
from course_lib.kernels.matmul import mosaic_gpu as matmul_gpu
from course_lib.kernels.matmul import triton as matmul_portable
from course_lib.kernels.matmul.blocks import Problem

_SIDES = (512, 256, 128)  # of a block of rows, and of a block of columns of dx


def gradients(
    x: Float[Array, "*batch K"],
    w: Float[Array, "K N"],
    z: Float[Array, "*batch N"] | None,
    g: Float[Array, "*batch N"],
    activation: str,
    precision: lax.Precision | None,
    want_dx: bool = True,
    summed: bool = False,
    cuts: mesh_rules.Cuts = None,
) -> tuple[Float[Array, "*batch K"] | None, Float[Array, "K N"], Float32[Array, " N"]]:
    """dx, dw and db; None for dx where it is not wanted.

    ``z`` is used for act'(z) alone: None for no activation, and y will do for relu. ``summed``: K may be cut among
    devices, as it may where there is no activation.
    """
    how = {"activation": activation, "precision": precision, "want_dx": want_dx}
    operands = (x, w, g) if z is None else (x, w, g, z)
    if 0 in (*x.shape, *w.shape):
        grads = _plain(*operands, **how)
    else:
        on_gpu = fixed(linear_gpu.gradients_on_gpu, activation=activation, want_dx=want_dx)
        op = Op(
            name="gradient of linear",
            rule=_rule(x.ndim - 1, "k" if summed else "K", z is not None, want_dx),
            tpu=fixed(_on_tpu, **how),
            gpu=fixed(on_gpu, multiply=matmul_gpu.product_here),
            portable=fixed(on_gpu, multiply=matmul_portable.product_here),
            plain=fixed(_plain, **how),
        )
        grads = op(*operands, cuts=cuts)
    return grads if want_dx else (None, *grads)


def _rule(batch: int, k: str, with_z: bool, want_dx: bool) -> str:
    rows = mesh_rules.letters(batch)
    sums = " ".join("+" + letter for letter in rows.split())
    ins = f"{rows} {k}, {k} n, {rows} n" + f", {rows} n" * with_z
    return ins + " -> " + f"{rows} {k} +n, " * want_dx + f"{k} n {sums}, n {sums}"


def _plain(x, w, g, *z, activation, precision, want_dx):
    (x, g, *z), shape = _as_rows(x, g, *z), x.shape
    dz = _dz(activation, g, *z)
    dw = dot(x, dz, transpose_x=True, precision=precision).astype(w.dtype)
    db = jnp.sum(dz.astype(jnp.float32), axis=0)
    if not want_dx:
        return dw, db
    return dot(dz, w, transpose_y=True, precision=precision).astype(x.dtype).reshape(shape), dw, db


def _on_tpu(x, w, g, *z, activation, precision, want_dx):
    (x, g, *z), shape = _as_rows(x, g, *z), x.shape
    if want_dx and z and (sides := _sides(g.shape[1], x.dtype, passes(precision))):
        dx, dz = _dx(activation, precision, sides, w, g, *z)
    else:
        dz = activations.pull_back(activation, g, *z) if z else g
        level = lax.Precision.HIGHEST if precision is None else precision
        dx = matmul.matmul_transposed(dz, w, transpose_y=True, precision=level) if want_dx else None
    dw, db = _dw(precision, x, dz)
    return (dx.reshape(shape), dw, db) if want_dx else (dw, db)


def _as_rows(*arrays: Array) -> list[Array]:
    return [array.reshape(math.prod(array.shape[:-1]), array.shape[-1]) for array in arrays]


def _dz(activation: str, g: Array, z: Array | None = None) -> Array:
    """The cotangent of z, in the dtype of g; computed in f32."""
    if z is None:
        return g
    return (g.astype(jnp.float32) * activations.slope(activation, z.astype(jnp.float32))).astype(g.dtype)


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

    # Two branches, though one line would do: so the MXU starts on the first rows of dz while the rest is computed.
    @pl.when(pl.program_id(1) == 0)
    def _first():
        dz = _dz(activation, g_ref[...], z_ref[...])
        dz_ref[...] = dz
        dx_ref[...] = product(dz)

    @pl.when(pl.program_id(1) > 0)
    def _rest():
        dx_ref[...] = product(dz_ref[...])


def _dx(activation: str, precision, sides: tuple[int, int], w: Array, g: Array, z: Array) -> tuple[Array, Array]:
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
            dimension_semantics=("parallel", "arbitrary"),
            vmem_limit_bytes=_limit(*sides, n, g.dtype, passes(precision)),
        ),
        name="linear_dx",
    )(g, z, w)


def _sides(n: int, dtype, passes: int) -> tuple[int, int] | None:
    """Rows and columns of a block of dx, the largest that fit; None where no whole rows of z do."""

    def fits(bm: int, bk: int) -> bool:
        written_out = 2 * bm * bk * n * passes <= chip.LARGEST_STEP
        return written_out and _limit(bm, bk, n, dtype, passes) <= chip.vmem_bytes() // 2

    return next(((bm, bk) for bm in _SIDES for bk in _SIDES if bk <= bm and fits(bm, bk)), None)


def _limit(bm: int, bk: int, n: int, dtype, passes: int) -> int:
    """VMEM to ask for, in bytes: the blocks twice, and room for dz, parts of operands, and spilled registers.

    Half of what the chip has is the most that is chosen, as in ``matmul_blocks.vmem_limit``.
    """
    n = pl.cdiv(n, 128) * 128
    blocks = 2 * (3 * bm * n + bk * n + bm * bk) * jnp.dtype(dtype).itemsize
    parts = 8 * (bm + bk) * n * (passes > 1)
    return max(16 << 20, blocks + parts + 4 * bm * n + (8 << 20))


def _dw_kernel(
    x_ref: Float[Ref, "bk bm"],  # rows k of x, columns i
    dz_ref: Float[Ref, "bk bn"],  # rows k of dz, columns j
    dw_ref: Float[Ref, "bm bn"],
    db_ref: Float32[Ref, "1 bn"],  # stays put while i and k run
    acc_ref: Float32[Ref, "bm bn"],
    *,
    size: int,
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


def _whole_dw_kernel(
    x_ref: Float[Ref, "M bm"],
    dz_ref: Float[Ref, "M bn"],
    dw_ref: Float[Ref, "bm bn"],
    db_ref: Float32[Ref, "1 bn"],  # stays put while i runs
    *,
    precision,
) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _sum_rows():
        db_ref[...] = jnp.sum(dz_ref[...].astype(jnp.float32), axis=0, keepdims=True)

    dw_ref[...] = dot(x_ref[...], dz_ref[...], transpose_x=True, precision=precision).astype(dw_ref.dtype)


def _dw(precision, x: Array, dz: Array) -> tuple[Array, Array]:
    """dw and db: the reduction is over the rows, and j runs slowest, so that each block of db is summed in one go."""
    (size, m), n = x.shape, dz.shape[1]
    # x is multiplied by its transpose: the rows of dw are lanes of its blocks.
    problem = Problem(m=m, k=size, n=n, dtype=x.dtype, passes=passes(precision), lanes_of_m=True)
    sizes = bm, bk, bn = matmul_blocks.chosen(None, problem)
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
            # i is not parallel: only its first turn sums the block of db, for all the others.
            dimension_semantics=("parallel", "arbitrary", "arbitrary"),
            vmem_limit_bytes=matmul_blocks.vmem_limit(sizes, problem),
        ),
        name="linear_dw",
    )(x, dz)
    return dw, db[0]
