"""Matrix multiplication of bf16 on Hopper GPUs (H100, H200) by Mosaic GPU; the result is that of ``matmul.reference``.

Cost   FLOPs 2*M*N*K;  bytes from L2 or HBM (M*K*ceil(N/bn) + K*N*ceil(M/bm) + M*N) * 2
SMEM   2 * stages * (bm*bk + bk*bn) for the ring, 4 * bm * PIECE for two pieces of o on their way out
Regs   per multiplying thread bm*bn/256 for the accumulator in f32: 128 of the 232 it may have

The grid has one block per SM, which computes one tile of o after another (a *persistent* kernel), in an order that
snakes over o, so that tiles computed at about the same time share rows of x and columns of y in the L2 cache. A block
has three warpgroups of 128 threads. One copies: TMA brings blocks of x and y into a ring of ``stages`` buffers, as long
as there is room. Two multiply, each its half of the rows: wgmma reads both operands from the ring and accumulates in
registers. Two barriers per stage say when it is full, and when both warpgroups have finished with it.

Past the edge of an array TMA reads zeros and writes nothing, so the edges of tiles need no mask. But Mosaic GPU copies
in units of 8 rows by 64 columns: it refuses an array that is not a whole number of them, and of one with fewer columns
than a unit it copies something else (on an H100, with JAX 0.11.2).
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from course_lib.arrays import Array, BFloat16, Float32
from course_lib.kernels.common import chip

_MULTIPLIERS, _COPIER = 2, 2  # warpgroups 0 and 1 multiply, number 2 copies
_REGISTERS = {"copies": 40, "multiplies": 232}  # of a thread; an SM has 65,536, which is 168 for each of 384 threads
PIECE = 64  # columns of o written at once: beside the ring SMEM has no room for a whole tile
_A_COLUMN_EACH = plgpu.Layout.WGMMA.reduce(0)  # of a vector: where wgmma keeps the columns of its sums
_UNIT = 8, 64  # rows and columns of bf16 that Mosaic GPU copies at once, and wgmma reads from SMEM


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """A tile of o is bm by bn, and a stage of the ring holds bk of the reduction. They never change the result."""

    bm: int = 128
    bn: int = 256
    bk: int = 64
    stages: int = 4
    snake: int = 16  # tiles side by side before the order reverses

    def __post_init__(self):
        if self.bm != 128 or self.bn not in (64, 128, 256) or self.bk not in (64, 128) or self.stages < 2:
            raise ValueError(f"{self}: bm must be 128, bn 64, 128 or 256, bk 64 or 128, and stages 2 or more.")
        if self.smem_bytes > chip.HOPPER_SMEM_BYTES:
            raise ValueError(
                f"{self}: the ring needs {self.smem_bytes:,} bytes of shared memory, and a block may have "
                f"{chip.HOPPER_SMEM_BYTES:,}. Try fewer stages."
            )

    @property
    def smem_bytes(self) -> int:
        ring = 2 * self.stages * (self.bm * self.bk + self.bk * self.bn)
        return ring + 4 * self.bm * PIECE + 1024 + 16 * self.stages  # and the barriers


# Tiles by their width, with the share of the widest one's rate that they reach. 512 x 8192 x 2048, where each SM has at
# most one tile, took an H100 76.7 us with 256 columns, 41 us with 128, and 26.7 us with 64.
_TILES = {256: (Blocks(), 1.0), 128: (Blocks(bn=128, stages=6), 0.94), 64: (Blocks(bn=64, stages=8), 0.72)}


def blocks_for(m: int, n: int, sms: int) -> Blocks:
    """Return the tile with which the SM that has the most to do is done first."""

    def longest(bn):
        turns = pl.cdiv(pl.cdiv(m, _TILES[bn][0].bm) * pl.cdiv(n, bn), sms)
        return turns * bn / _TILES[bn][1]

    return _TILES[min(_TILES, key=longest)][0]


def unfit(x: Array, y: Array, *, transpose_x: bool = False, transpose_y: bool = False) -> str:
    """Return why this kernel cannot multiply x and y; "" if it can."""
    if x.dtype != jnp.bfloat16:
        return f"it multiplies bfloat16, and x is {x.dtype}"
    o_shape = x.shape[1 if transpose_x else 0], y.shape[0 if transpose_y else 1]
    for rows, columns in (x.shape, y.shape, o_shape):
        if columns % _UNIT[1] or (rows % _UNIT[0] and rows > _UNIT[0]):
            return (
                f"Mosaic GPU copies 8 rows of {_UNIT[1]} numbers of bfloat16 at a time, and one of the arrays has "
                f"shape {(rows, columns)}"
            )
    return chip.not_a_hopper()


def product_here(
    x: Array, y: Array, *columns: Array, transpose_x: bool = False, transpose_y: bool = False, **how
) -> tuple[Array, ...]:
    """Return ``product`` for the GPU traced for. Raises ``chip.NoKernel`` if this kernel cannot compute it."""
    turned = {"transpose_x": transpose_x, "transpose_y": transpose_y}
    if why := unfit(x, y, **turned):
        raise chip.NoKernel(why)
    return product(x, y, *columns, **turned, **how)


def on_gpu(x: Array, y: Array, *, transpose_x: bool, transpose_y: bool) -> Array:
    """Return ``matmul_transposed``; raises like ``product_here``."""
    return product_here(x, y, transpose_x=transpose_x, transpose_y=transpose_y)[0]


def as_it_is(sums: Float32[Array, "64 piece"]) -> tuple[Float32[Array, "64 piece"]]:
    """Return a piece of the product unchanged; other functions finish it before it is rounded and written."""
    return (sums,)


def product(
    x: BFloat16[Array, "M K"],
    y: BFloat16[Array, "K N"],
    *columns: BFloat16[Array, " N"],
    transpose_x: bool = False,
    transpose_y: bool = False,
    finish: Callable = as_it_is,
    results: int = 1,
    name: str = "matmul",
    blocks: Blocks | None = None,
    sms: int | None = None,
    interpret: plgpu.InterpretGPUParams | None = None,
) -> tuple[BFloat16[Array, "M N"], ...]:
    """Return ``x @ y`` finished by ``finish``, as a tuple of ``results`` arrays of M by N.

    With ``transpose_x`` x has shape (K, M), with ``transpose_y`` y has (N, K). ``finish`` gets 64 rows of PIECE columns
    of the product in f32, and the same columns of each vector in ``columns``, and returns one value per result.
    ``name`` is the kernel's. ``sms`` is the number of blocks in the grid; None: that of the GPU traced for.
    """
    (m, k), n = x.shape[:: -1 if transpose_x else 1], y.shape[0 if transpose_y else 1]
    sms = sms or chip.sms()
    blocks = blocks or blocks_for(m, n, sms)
    bm, bn, bk, stages = blocks.bm, blocks.bn, blocks.bk, blocks.stages
    rows = bm // _MULTIPLIERS  # of a warpgroup
    across, down, steps = pl.cdiv(n, bn), pl.cdiv(m, bm), pl.cdiv(k, bk)
    columns = [jnp.pad(vector, (0, across * bn - n)) for vector in columns]

    def kernel(x_gmem, y_gmem, *refs):
        columns_gmem, refs = refs[: len(columns)], refs[len(columns) :]
        o_gmem, (x_smem, y_smem, o_smem, full, empty) = refs[:results], refs[results:]
        warpgroup, sm = lax.axis_index("warpgroup"), lax.axis_index("sm")
        turns = lax.div(across * down - 1 - sm + sms, sms)  # tiles of this SM

        def for_each_step(turn, do):
            """Call ``do(k, stage, number)`` with a step's index in the reduction, its stage and its number."""

            @pl.loop(0, steps)
            def _step(k):
                number = turn * steps + k
                do(k, lax.rem(number, stages), number)

        def tile(turn):
            return plgpu.planar_snake(sm + turn * sms, (down, across), minor_dim=0, tile_width=blocks.snake)

        @pl.when(warpgroup == _COPIER)
        def _copy():
            plgpu.set_max_registers(_REGISTERS["copies"], action="decrease")

            @pl.loop(0, turns)
            def _tile(turn):
                i, j = tile(turn)

                def fill(k, stage, number):
                    @pl.when(number >= stages)
                    def _once_it_is_free():
                        plgpu.barrier_wait(empty.at[stage])

                    x_block, y_block = (pl.ds(i * bm, bm), pl.ds(k * bk, bk)), (pl.ds(k * bk, bk), pl.ds(j * bn, bn))
                    x_block, y_block = x_block[:: -1 if transpose_x else 1], y_block[:: -1 if transpose_y else 1]
                    plgpu.copy_gmem_to_smem(x_gmem.at[x_block], x_smem.at[stage], full.at[stage])
                    plgpu.copy_gmem_to_smem(y_gmem.at[y_block], y_smem.at[stage], full.at[stage])

                for_each_step(turn, fill)

            @pl.loop(0, lax.min(turns * steps, stages))
            def _until_all_is_used(stage):
                plgpu.barrier_wait(empty.at[stage])

        @pl.when(warpgroup != _COPIER)
        def _multiply():
            plgpu.set_max_registers(_REGISTERS["multiplies"], action="increase")
            mine = pl.ds(warpgroup * rows, rows)

            @pl.loop(0, turns)
            def _tile(turn):
                i, j = tile(turn)

                def summed(acc_ref):
                    def add(k, stage, number):
                        plgpu.barrier_wait(full.at[stage])
                        x_block = x_smem.at[stage, :, mine].T if transpose_x else x_smem.at[stage, mine]
                        y_block = y_smem.at[stage].T if transpose_y else y_smem.at[stage]
                        plgpu.wgmma(acc_ref, x_block, y_block)
                        plgpu.wgmma_wait(1)  # this one runs on; the one before it is done, and so is its stage

                        @pl.when(k > 0)
                        def _free_the_one_before():
                            plgpu.barrier_arrive(empty.at[lax.rem(number - 1, stages)])

                    for_each_step(turn, add)
                    return acc_ref[...]

                sums = pl.run_scoped(summed, plgpu.ACC((rows, bn), jnp.float32))
                plgpu.barrier_arrive(empty.at[lax.rem((turn + 1) * steps - 1, stages)])
                for piece in range(bn // PIECE):
                    here = pl.ds(j * bn + piece * PIECE, PIECE)
                    beside = (
                        plgpu.load(vector.at[here], layout=_A_COLUMN_EACH, optimized=False) for vector in columns_gmem
                    )
                    values = finish(sums[:, piece * PIECE : (piece + 1) * PIECE], *beside)
                    for number, (value, o) in enumerate(zip(values, o_gmem, strict=True), piece * results):
                        way_out = o_smem.at[number % 2, warpgroup]
                        plgpu.wait_smem_to_gmem(1, wait_read_only=True)  # what left by this way has left
                        way_out[...] = value.astype(o.dtype)
                        plgpu.commit_smem()
                        plgpu.copy_smem_to_gmem(way_out, o.at[pl.ds(i * bm + warpgroup * rows, rows), here])

            plgpu.wait_smem_to_gmem(0)

    x_stage, y_stage = (bm, bk)[:: -1 if transpose_x else 1], (bk, bn)[:: -1 if transpose_y else 1]
    return plgpu.kernel(
        kernel,
        out_type=(jax.ShapeDtypeStruct((m, n), x.dtype),) * results,
        scratch_types=[
            plgpu.SMEM((stages, *x_stage), x.dtype),
            plgpu.SMEM((stages, *y_stage), y.dtype),
            plgpu.SMEM((2, _MULTIPLIERS, rows, PIECE), x.dtype),
            plgpu.Barrier(num_arrivals=2, num_barriers=stages),  # full: both copies have arrived
            plgpu.Barrier(num_arrivals=_MULTIPLIERS, num_barriers=stages),  # empty: both warpgroups have read it
        ],
        grid=(sms,),
        grid_names=("sm",),
        num_threads=_MULTIPLIERS + 1,
        thread_name="warpgroup",
        compiler_params=plgpu.CompilerParams(approx_math=True),
        interpret=interpret,
        kernel_name=name,
    )(x, y, *columns)
