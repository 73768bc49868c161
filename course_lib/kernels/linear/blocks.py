"""Block sizes of the kernels of ``linear``: its matmuls, and the rows and columns of a block of dx."""

import math

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Described
from course_lib.kernels.common import chip
from course_lib.kernels.common.products import passes
from course_lib.kernels.common.symbolic import planned
from course_lib.kernels.matmul.blocks import Problem

_SIDES = (512, 256, 128)  # of a block of rows, and of a block of columns of dx


def forward_problem(x: Described, w: Described, precision: lax.Precision | None, save: bool) -> Problem:
    """Return the matmul of the forward kernel; with ``save`` it writes z too."""
    (*rows, k), n = planned(x.shape), planned(w.shape)[1]
    return Problem(m=math.prod(rows), k=k, n=n, dtype=x.dtype, passes=passes(precision), outputs=1 + save)


def dw_problem(x: Described, dz: Described, precision: lax.Precision | None) -> Problem:
    """Return the matmul of dw: x is multiplied by its transpose, so the rows of dw are lanes of its blocks."""
    (size, m), n = x.shape, dz.shape[1]
    return Problem(m=m, k=size, n=n, dtype=x.dtype, passes=passes(precision), lanes_of_m=True)


def sides(n: int, dtype, passes: int) -> tuple[int, int] | None:
    """Return rows and columns of a block of dx, the largest that fit; None if no whole rows of z do."""

    def fits(bm: int, bk: int) -> bool:
        written_out = 2 * bm * bk * n * passes <= chip.LARGEST_STEP
        return written_out and dx_limit(bm, bk, n, dtype, passes) <= chip.vmem_bytes() // 2

    return next(((bm, bk) for bm in _SIDES for bk in _SIDES if bk <= bm and fits(bm, bk)), None)


def dx_limit(bm: int, bk: int, n: int, dtype, passes: int) -> int:
    """Return the VMEM to request, in bytes: the blocks twice, and room for dz, parts of operands and spilled registers.

    ``sides`` chooses at most half of what the chip has, for the reason that ``matmul.blocks.vmem_limit`` gives.
    """
    n = pl.cdiv(n, 128) * 128
    blocks = 2 * (3 * bm * n + bk * n + bm * bk) * jnp.dtype(dtype).itemsize
    parts = 8 * (bm + bk) * n * (passes > 1)
    return max(16 << 20, blocks + parts + 4 * bm * n + (8 << 20))
