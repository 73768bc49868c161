"""The blocks of a dense product that a pattern keeps, part by part of its depth K: all of a and of b pass VMEM once.

    o[z] = sum over parts of K:  a[rows[z], part] @ b[part, cols[z]]

Both operands are read once, and the sums of all blocks wait in VMEM, in f32. A part of a and of b is copied by hand,
and the next one asked for before this one is multiplied. Index maps would ask for it one grid step before it is needed,
and a step is a few blocks: too short to hide so large a copy.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Int32, Ref
from course_lib.kernels.block_sparse.kernel import place
from course_lib.kernels.common.compiler_params import compiler_params
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot
from course_lib.kernels.common.symbolic import is_known


def _kernel(
    rows_ref: Int32[Ref, " Z"],
    cols_ref: Int32[Ref, " Z"],
    a_hbm: Float[Ref, "R h K"],
    b_hbm: Float[Ref, "..."],  # (K, N); (C, w, K) with transpose_b
    o_ref: Float[Ref, "p h w"],  # with the last part of K: blocks of step t
    acc_ref: Float32[Ref, "q h w"],  # the sums of all blocks of this core
    a_ref: Float[Ref, "2 R h bk"],
    b_ref: Float[Ref, "..."],  # 2 parts
    sem: Ref,
    *,
    shape: tuple[int, int],
    transpose_b: bool,
    precision: lax.Precision | None,
) -> None:
    core, part, t = (pl.program_id(axis) for axis in range(3))
    steps, (per_step, _, w), bk = pl.num_programs(2), o_ref.shape, a_ref.shape[3]

    def copies(part):
        slot, depth = lax.rem(part, 2), pl.ds(pl.multiple_of(part * bk, bk), bk)
        b = b_hbm.at[:, :, depth] if transpose_b else b_hbm.at[depth]
        pairs = (a_hbm.at[:, :, depth], a_ref.at[slot]), (b, b_ref.at[slot])
        return [pltpu.make_async_copy(*pair, sem.at[number, slot]) for number, pair in enumerate(pairs)]

    @pl.when((part == 0) & (t == 0))
    def _first():
        for copy in copies(part):
            copy.start()

    @pl.when((part + 1 < pl.num_programs(1)) & (t == 0))
    def _next():
        for copy in copies(part + 1):
            copy.start()

    @pl.when(t == 0)
    def _arrived():
        for copy in copies(part):
            copy.wait()

    slot = lax.rem(part, 2)
    for x in range(per_step):
        at = t * per_step + x
        row, col = place(rows_ref, cols_ref, core * steps * per_step + at, per_step, shape)
        a = a_ref[slot, jnp.minimum(row, shape[0] - 1)]
        if transpose_b:
            b = b_ref[slot, col]
        else:  # one column of blocks need not be as wide as a register
            b = b_ref[slot] if shape[1] == 1 else b_ref[slot, :, pl.ds(pl.multiple_of(col * w, w), w)]
        o = dot(a, b, transpose_y=transpose_b, precision=precision)
        o += jnp.where(part == 0, 0.0, acc_ref[at])
        acc_ref[at] = o
        o_ref[x] = jnp.where(row < shape[0], o, 0.0).astype(o_ref.dtype)  # that of the last part stays


def has_parts(k: int) -> bool:
    """Whether a depth can be cut into parts that a register's lanes divide, on any chip."""
    return is_known(k) and k > LANES and k % LANES == 0


def sdd(
    a: Float[Array, "M K"],
    b: Float[Array, "_K _N"],
    rows: Int32[Array, " Z"],
    cols: Int32[Array, " Z"],
    shape: tuple[int, int],
    *,
    transpose_b: bool,
    precision: lax.Precision | None,
    bk: int,
    per_step: int,
    cores: int,
    vmem_bytes: int,
) -> Float[Array, "Z h w"]:
    """``block_sparse_kernels.sdd`` for a K that is a multiple of ``bk``; ``cores`` of them divide the steps.

    Not under ``jax.vmap``: what is copied by hand has no axis of a grid. ``has_parts`` says where it may be chosen.
    """
    (m, k), n, count = a.shape, b.shape[0 if transpose_b else 1], rows.shape[0]
    h, w, parts, steps = m // shape[0], n // shape[1], k // bk, pl.cdiv(count, per_step)
    cores = cores if steps % cores == 0 else 1
    steps //= cores
    part_of_b = (shape[1], w, bk) if transpose_b else (bk, n)

    def block(core, part, t, *_):
        return core * steps + jnp.where(part == parts - 1, t, 0), 0, 0

    return pl.pallas_call(
        functools.partial(_kernel, shape=shape, transpose_b=transpose_b, precision=precision),
        out_shape=out_type(a, (count, h, w), a.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(cores, parts, steps),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)] * 2,
            out_specs=pl.BlockSpec((per_step, h, w), block),
            scratch_shapes=[
                pltpu.VMEM((steps * per_step, h, w), jnp.float32),
                pltpu.VMEM((2, shape[0], h, bk), a.dtype),
                pltpu.VMEM((2, *part_of_b), b.dtype),
                pltpu.SemaphoreType.DMA((2, 2)),
            ],
        ),
        compiler_params=compiler_params(vmem_bytes, "parallel", "arbitrary", "arbitrary"),
        name="block_sparse_sdd",
    )(rows, cols, a.reshape(shape[0], h, k), b.reshape(shape[1], w, k) if transpose_b else b)
