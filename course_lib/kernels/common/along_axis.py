"""What kernels that go along an axis block by block (`reduce`, `scan`) share: sizes of blocks, dtype of sums."""

import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.symbolic import planned

_WIDEST = 16_384  # columns are taken 128 at a time, and the code for each piece is written out


def sizes_for(rows: int, columns: int, itemsize: int, *, wide: int = 2048, widest: int = _WIDEST) -> tuple[int, int]:
    """bm and bn of blocks of about 1 MiB for an array (rows, columns), less where it is small; right for every chip.

    A block has ``wide`` columns, and where rows are few up to ``widest``: for kernels that cut it to the array's rows.
    All that lies in VMEM takes 8 MiB at most, and every TPU lets a kernel have 16.
    """
    rows, columns = planned((rows, columns))
    elements = min(2**20 // itemsize, max(2**17, rows * columns // 4))
    long = elements // whole(min(rows, LANES), 8) // LANES * LANES if rows > 1 else wide
    bn = min(max(wide, min(widest, long)), whole(columns, LANES))
    bm = min(whole(rows, LANES), max(LANES, elements // bn // LANES * LANES))
    return bm, bn


def whole(size: int, tile: int) -> int:
    """``size`` rounded up to a multiple of ``tile``."""
    return pl.cdiv(size, tile) * tile


def accumulator(dtype) -> jnp.dtype:
    """The dtype in which numbers of ``dtype`` are collected: f32 for floats, int32 for integers."""
    return jnp.dtype(jnp.float32 if jnp.issubdtype(dtype, jnp.floating) else jnp.int32)
