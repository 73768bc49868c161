"""Block sizes and accumulator dtypes of kernels that go along an axis block by block: `reduce`, `scan`, `scale_add`."""

import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.symbolic import planned

_WIDEST = 16_384  # each 128 columns become instructions of their own, so wider blocks take long to compile


def sizes_for(rows: int, columns: int, itemsize: int, *, wide: int = 2048, widest: int = _WIDEST) -> tuple[int, int]:
    """Return bm and bn of blocks of about 1 MiB (less for a small array) for an array (rows, columns), for any
    chip.

    A block has ``wide`` columns, or up to ``widest`` if there are few rows, for kernels that cut it to the array's
    rows. The kernel's VMEM stays below 8 MiB, and every TPU grants 16.
    """
    rows, columns = planned((rows, columns))
    elements = min(2**20 // itemsize, max(2**17, rows * columns // 4))
    long = elements // whole(min(rows, LANES), 8) // LANES * LANES if rows > 1 else wide
    bn = min(max(wide, min(widest, long)), whole(columns, LANES))
    bm = min(whole(rows, LANES), max(LANES, elements // bn // LANES * LANES))
    return bm, bn


def whole(size: int, tile: int) -> int:
    """Return ``size`` rounded up to a multiple of ``tile``."""
    return pl.cdiv(size, tile) * tile


def accumulator(dtype) -> jnp.dtype:
    """Return the dtype in which values of ``dtype`` accumulate: f32 for floats, int32 for integers."""
    return jnp.dtype(jnp.float32 if jnp.issubdtype(dtype, jnp.floating) else jnp.int32)
