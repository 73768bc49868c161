"""Matrix multiplication of bf16 on Ampere and Ada (A100, L4) by Triton; the result is that of ``matmul.reference``.

Cost   FLOPs 2*M*N*K;  bytes from L2 or HBM (M*K*ceil(N/bn) + K*N*ceil(M/bm) + M*N) * 2 SMEM   2 * (stages - 1) * (bm*bk
+ bk*bn), which Triton fills ahead of the products Regs   per thread bm*bn / (32 * warps) for the accumulator in f32:
128, or 64 if the product is finished further

On a TPU the reduction is an axis of the grid, and the accumulator stays in VMEM from step to step. On a GPU the steps
of the grid run at the same time, so the reduction is a loop in the body and the accumulator stays in registers. A block
of the grid computes one tile of o. Tiles are numbered in bands of ``band`` rows of tiles, column by column within a
band, so that those computed at about the same time share rows of x and columns of y in the L2 cache.
"""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from course_lib.arrays import Array, BFloat16, Float32
from course_lib.kernels.common import chip, portable
from course_lib.kernels.common.outputs import out_type
from course_lib.kernels.common.products import dot
from course_lib.kernels.matmul.mosaic_gpu import as_it_is

_SMALLEST = 16  # of each side of a tile that the tensor cores multiply


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """A tile of o is bm by bn, and a step of the loop takes bk of the reduction. They never change the result."""

    bm: int = 128
    bn: int = 128
    bk: int = 32
    stages: int = 4
    warps: int = 4
    band: int = 8  # rows of tiles

    def __post_init__(self):
        sides = (self.bm, self.bn, self.bk)
        if min(sides) < _SMALLEST or any(side & (side - 1) for side in sides):
            raise ValueError(f"{self}: bm, bn and bk must be powers of two, {_SMALLEST} or more.")


def blocks_for(m: int, n: int, finished: bool = False) -> Blocks:
    """Return tiles of 128 by 128, cut down to a smaller o.

    If the product is ``finished`` further, a tile needs more registers, so eight warps share it and fetch more at once.
    """
    bm, bn = (max(_SMALLEST, min(128, pl.next_power_of_2(side))) for side in (m, n))
    return Blocks(bm=bm, bn=bn, bk=64, stages=3, warps=8) if finished else Blocks(bm=bm, bn=bn)


def product_here(x: Array, y: Array, *columns: Array, **how) -> tuple[Array, ...]:
    """Return ``product``. Raises ``chip.NoKernel`` if this kernel cannot compute it."""
    if x.dtype != jnp.bfloat16:
        raise chip.NoKernel(f"it multiplies bfloat16, and x is {x.dtype}")
    return product(x, y, *columns, **how)


def on_gpu(x: Array, y: Array, *, transpose_x: bool, transpose_y: bool) -> Array:
    """Return ``matmul_transposed`` by Triton; raises like ``product_here``."""
    return product_here(x, y, transpose_x=transpose_x, transpose_y=transpose_y)[0]


def product(
    x: BFloat16[Array, "M K"],
    y: BFloat16[Array, "K N"],
    *columns: BFloat16[Array, " N"],
    transpose_x: bool = False,
    transpose_y: bool = False,
    finish: Callable[..., tuple[Float32[Array, "bm bn"], ...]] = as_it_is,
    results: int = 1,
    name: str = "matmul",
    blocks: Blocks | None = None,
    interpret: bool = False,
) -> tuple[BFloat16[Array, "M N"], ...]:
    """Return ``mosaic_gpu.product`` by Triton; ``finish`` gets a whole tile of the product."""
    portable.refuse(x, y)
    turn_x, turn_y = -1 if transpose_x else 1, 1 if transpose_y else -1  # of (rows of o, K), and of (columns of o, K)
    (m, k), (n, _) = x.shape[::turn_x], y.shape[::turn_y]
    blocks = blocks or blocks_for(m, n, finished=finish is not as_it_is)
    bm, bn, bk = blocks.bm, blocks.bn, blocks.bk
    down, across = pl.cdiv(m, bm), pl.cdiv(n, bn)

    def tile(number):
        """Return row and column of a tile by its number."""
        first = lax.div(number, blocks.band * across) * blocks.band
        rows = lax.min(down - first, blocks.band)
        place = lax.rem(number, blocks.band * across)
        return first + lax.rem(place, rows), lax.div(place, rows)

    def body(x_ref, y_ref, *refs):
        column_refs, o_refs = refs[: len(columns)], refs[len(columns) :]
        i, j = tile(pl.program_id(0))

        def part(strip_ref, step, turn, start, size, length):
            """Load what a step of the loop takes of x or y: ``size`` rows of x from ``start`` on, or columns of y."""
            here = (slice(None), pl.ds(step * bk, bk))[::turn]
            mask = portable.inside((start, step * bk)[::turn], (size, bk)[::turn], (length, k)[::turn])
            return portable.Block(strip_ref.at[here], mask)[...]

        def add(step, sums):
            x_part, y_part = part(x_ref, step, turn_x, i * bm, bm, m), part(y_ref, step, turn_y, j * bn, bn, n)
            return sums + dot(x_part, y_part, transpose_x=transpose_x, transpose_y=transpose_y)

        sums = lax.fori_loop(0, pl.cdiv(k, bk), add, jnp.zeros((bm, bn), jnp.float32))
        in_columns, in_o = portable.inside((j * bn,), (bn,), (n,)), portable.inside((i * bm, j * bn), (bm, bn), (m, n))
        beside = (portable.Block(ref, in_columns)[...] for ref in column_refs)
        for value, o_ref in zip(finish(sums, *beside), o_refs, strict=True):
            portable.Block(o_ref, in_o)[...] = value.astype(o_ref.dtype)

    strip_of_x = pl.BlockSpec((bm, k)[::turn_x], lambda t: (tile(t)[0], 0)[::turn_x])
    strip_of_y = pl.BlockSpec((bn, k)[::turn_y], lambda t: (tile(t)[1], 0)[::turn_y])
    return tuple(
        pl.pallas_call(
            portable.named(body, name),
            out_shape=[out_type(x, (m, n), x.dtype)] * results,
            grid=(down * across,),
            in_specs=[strip_of_x, strip_of_y] + [pl.BlockSpec((bn,), lambda t: (tile(t)[1],))] * len(columns),
            out_specs=[pl.BlockSpec((bm, bn), tile)] * results,
            compiler_params=plt.CompilerParams(num_warps=blocks.warps, num_stages=blocks.stages),
            interpret=interpret,
        )(x, y, *columns)
    )
