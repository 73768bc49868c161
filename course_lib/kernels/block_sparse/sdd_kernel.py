"""Blocks of the product of two dense matrices: ``o[z] = (a @ b) at block z of the pattern``, nothing else is computed.

Cost   FLOPs 2*Z*h*w*K for Z blocks of (h, w);  HBM bytes (M*K + K*N + Z*h*w) * itemsize: all is read once
VMEM   2 * ((M + N)*bk + p*h*w) * itemsize, p blocks to a step;  and 4*Z*h*w for the accumulators

The grid is (cores, parts, steps): a part is bk of K, of all of a and of b, and the accumulators of all blocks wait in
VMEM. Parts are copied by hand, the next one before this one is multiplied. Index maps would request it one grid step
before it is needed, and a step, which is p blocks, is too short to hide so large a copy.
"""

import functools

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.arrays import Array, Float, Float32, Ref
from course_lib.kernels.block_sparse.kernel import place
from course_lib.kernels.block_sparse.pattern import Pattern, counted, in_blocks
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot


def sdd_reference(
    a: Float[Array, "M K"], b: Float[Array, "_K _N"], pattern: Pattern, *, transpose_b: bool = False
) -> Float[Array, "Z h w"]:
    """Return what ``sdd`` must compute: blocks of the whole product, and zeros for surplus entries."""
    o = dot(a.astype(jnp.float32), b.astype(jnp.float32), transpose_y=transpose_b, precision=lax.Precision.HIGHEST)
    rows, cols = counted(pattern.rows, pattern.cols, pattern.shape)
    return in_blocks(o, pattern.shape).at[rows, cols].get(mode="fill", fill_value=0).astype(a.dtype)


def _sdd_kernel(
    pattern: Pattern,  # of refs in SMEM
    a_hbm: Float[Ref, "R h K"],
    b_hbm: Float[Ref, "..."],  # (K, N); (C, w, K) with transpose_b
    o_ref: Float[Ref, "p h w"],  # with the last part of K: the blocks of step t
    acc_ref: Float32[Ref, "q h w"],  # all blocks of this core
    a_ref: Float[Ref, "2 R h bk"],
    b_ref: Float[Ref, "..."],  # 2 parts
    sem: Ref,
    *,
    transpose_b: bool,
    precision: lax.Precision | None,
) -> None:
    core, part, t = (pl.program_id(axis) for axis in range(3))
    steps, (per_step, _, w), bk, (rows, cols) = pl.num_programs(2), o_ref.shape, a_ref.shape[3], pattern.shape

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
        row, col = place(pattern, core * steps * per_step + at, per_step)
        a = a_ref[slot, jnp.minimum(row, rows - 1)]
        if transpose_b:
            b = b_ref[slot, col]
        else:  # a single column of blocks may have any width
            b = b_ref[slot] if cols == 1 else b_ref[slot, :, pl.ds(pl.multiple_of(col * w, w), w)]
        o = dot(a, b, transpose_y=transpose_b, precision=precision)
        o += jnp.where(part == 0, 0.0, acc_ref[at])
        acc_ref[at] = o
        o_ref[x] = jnp.where(row < rows, o, 0.0).astype(o_ref.dtype)  # the last part's is what remains


def launch_sdd(
    a: Float[Array, "M K"],
    b: Float[Array, "_K _N"],
    pattern: Pattern,
    *,
    transpose_b: bool,
    precision: lax.Precision | None,
    bk: int,
    per_step: int,
    cores: int,
    vmem: int,
) -> Float[Array, "Z h w"]:
    """Run the kernel on one TPU, for a K of whole parts of ``bk``; ``cores`` divide the steps. Not under jax.vmap."""
    (m, k), n, count, (rows, cols) = a.shape, b.shape[0 if transpose_b else 1], pattern.rows.shape[0], pattern.shape
    h, w, parts, steps = m // rows, n // cols, k // bk, pl.cdiv(count, per_step)
    cores = cores if steps % cores == 0 else 1
    steps //= cores

    def block(core, part, t, _):
        return core * steps + jnp.where(part == parts - 1, t, 0), 0, 0

    return pl.pallas_call(
        functools.partial(_sdd_kernel, transpose_b=transpose_b, precision=precision),
        out_shape=out_type(a, (count, h, w), a.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(cores, parts, steps),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)] * 2,
            out_specs=pl.BlockSpec((per_step, h, w), block),
            scratch_shapes=[
                pltpu.VMEM((steps * per_step, h, w), jnp.float32),
                pltpu.VMEM((2, rows, h, bk), a.dtype),
                pltpu.VMEM((2, cols, w, bk) if transpose_b else (2, bk, n), b.dtype),
                pltpu.SemaphoreType.DMA((2, 2)),
            ],
        ),
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary", "arbitrary"), vmem_limit_bytes=vmem
        ),
        name="block_sparse_sdd",
    )(pattern, a.reshape(rows, h, k), b.reshape(cols, w, k) if transpose_b else b)
