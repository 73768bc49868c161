"""How a cumulative sum sees an array, which kernel sums it, and in which blocks; right for every chip.

Why blocks are summed this way: predicted cycles for f32 (8192, 2048) on a v5e, where HBM alone needs 245k, are 152k
down the rows and 164k along columns. Rotating lanes along columns, 7 times instead of 3, takes 1,158k. Multiplying by a
triangle of ones on the MXU takes 216k at HIGHEST precision, and 174k as three bf16 products in which the triangle is
exact; but one infinity would make a whole row NaN, and integers would need another way.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from jax.experimental import pallas as pl

from course_lib.kernels.common.along_axis import sizes_for, whole
from course_lib.kernels.common.layouts import is_by_columns
from course_lib.kernels.common.legal import LANES, SUBLANES, check
from course_lib.kernels.common.symbolic import cut, planned
from course_lib.kernels.scan import other_axes
from course_lib.kernels.scan.kernel import SQUARE, Blocks, long, turned

_VECTOR_TILE = SUBLANES * LANES
_PLANES = 2**18  # elements of a block of planes
_LONG = 2**18  # elements of a block of long rows, of several squares


class Plan(NamedTuple):
    """How an array is seen, which axis of the view is summed, by which function of a block, and in which blocks."""

    add_up: Callable
    view: tuple[int, ...]
    axis: int
    block: tuple[int | None, ...]
    carry: tuple[int, int]
    blocks: Blocks
    transposes: bool  # its blocks, which takes VMEM
    of_transpose: bool = False  # the plan is for x.T, because XLA stores x by columns

    @property
    def vmem_bytes(self) -> int:
        """The VMEM of blocks and carry for four bytes an element: exact for f32, and enough for bf16."""
        area = math.prod(length for length in self.block if length)
        return area * (16 + 12 * self.transposes) + 4 * math.prod(self.carry)


def plan_of(shape: tuple[int, ...], dtype, axis: int, blocks: Blocks | None) -> Plan:
    """Return the plan for an array of ``shape`` that is summed along ``axis``; with ``blocks`` if some are given."""
    if blocks is None and is_by_columns(shape):
        return plan_of(shape[::-1], dtype, 1 - axis, None)._replace(of_transpose=True)
    known, rows = planned(shape), math.prod(shape[:-1])
    columns = known[-1]
    if len(shape) == 1:
        return _vector_plan(whole(columns, _VECTOR_TILE))
    if axis == len(shape) - 1:
        blocks = blocks or _long_rows(math.prod(known[:-1]), columns)
        if blocks and _is_long(blocks, columns):
            block = (cut(blocks.bm, rows) if blocks.bn % SQUARE == 0 else blocks.bm, blocks.bn)
            carry = (block[0], LANES)
            return Plan(long, (rows, columns), 1, block, carry, blocks, transposes=True)
        blocks = blocks or Blocks(bm=min(512, whole(math.prod(known[:-1]), LANES)), bn=min(512, whole(columns, LANES)))
        check(blocks, bm=LANES, bn=LANES)  # rows become columns on the way
        block, carry = (blocks.bm, blocks.bn), (SUBLANES, blocks.bm)
        return Plan(turned, (rows, columns), 1, block, carry, blocks, transposes=True)
    before, summed = math.prod(shape[:axis]), shape[axis]
    if axis == len(shape) - 2:
        bm, bn = sizes_for(known[axis], columns, dtype.itemsize, widest=2048)
        blocks = blocks or Blocks(bm=bm, bn=bn)
        check(blocks, bm=32, bn=LANES)  # whole registers of every dtype
        block, carry = (None, blocks.bm, blocks.bn), (SUBLANES, blocks.bn)
        view = (before, summed, shape[-1])
        return Plan(other_axes.rows, view, 1, block, carry, blocks, transposes=False)
    blocks = blocks or Blocks(bm=32, bn=512)
    plane = cut(blocks.bm, shape[-2]), cut(blocks.bn, shape[-1])
    deep = min(known[axis], max(1, _PLANES // (blocks.bm * blocks.bn)))
    view = (before, summed, math.prod(shape[axis + 1 : -2]), *shape[-2:])
    return Plan(other_axes.planes, view, 1, (None, deep, None, *plane), plane, blocks, transposes=False)


def _vector_plan(size: int) -> Plan:
    """Return the plan for a vector: pieces of 128, as it lies in HBM; as a row of a matrix it would be copied."""
    pieces = size // LANES
    blocks = Blocks(bm=min(_LONG // LANES, whole(pl.cdiv(pieces, 4), LANES)), bn=LANES)
    view, block, carry = (pieces, LANES), (blocks.bm, blocks.bn), (1, LANES)
    return Plan(other_axes.vector, view, 0, block, carry, blocks, transposes=True)


def _long_rows(rows: int, columns: int) -> Blocks | None:
    """Return blocks of few rows, which are cut into pieces; None if rows are many, or short."""
    pieces = 2 ** math.ceil(math.log2(pl.cdiv(columns, LANES)))
    if rows < SUBLANES or pieces >= LANES:
        bm = SUBLANES
        squares = _LONG // (min(bm, rows) * SQUARE)
        bn = SQUARE * max(1, min(squares, columns // (4 * SQUARE)))
    else:
        bm, bn = max(SUBLANES, LANES // pieces), pieces * LANES
    return Blocks(bm=bm, bn=bn) if bm < LANES and rows < LANES else None


def _is_long(blocks: Blocks, columns: int) -> bool:
    """Whether a block of fewer than 128 rows is cut into pieces of 128 elements.

    Its rows must be a multiple of 128 * 128 elements long; or whole, and 128 times a power of two.
    """
    pieces, squares = blocks.bn // LANES, blocks.bm * blocks.bn % SQUARE == 0
    whole_rows = blocks.bn >= columns and pieces & (pieces - 1) == 0 and squares
    return blocks.bm < LANES and (blocks.bn % SQUARE == 0 or whole_rows)
