"""Blocks of reductions, cut down to the array, and the VMEM they take."""

import math

from course_lib.kernels.common.along_axis import sizes_for, whole
from course_lib.kernels.common.symbolic import cut
from course_lib.kernels.reduce import middle
from course_lib.kernels.reduce.kernel import Blocks


def blocks_of(view: tuple[int, ...], itemsize: int) -> Blocks:
    """Return the blocks for one pass over an array seen as ``view``; right for every chip."""
    bm, bn = sizes_for(math.prod(view[:-1]), view[-1], itemsize)
    return Blocks(bm=bm, bn=bn)


def block_of(shape: tuple[int, int], axis: int, blocks: Blocks) -> tuple[int, int]:
    """Return the block of an array of ``shape`` (M, N) that is reduced along ``axis``."""
    rows, columns = shape
    if axis == 1 and rows == 1:
        return 1, min(blocks.bm * blocks.bn, whole(columns, 1024))
    bm, bn = cut(blocks.bm, rows), cut(blocks.bn, whole(columns, 128))
    return (bm if axis else whole(bm, 8)), bn


def vmem_bytes(view: tuple[int, ...], axis: int, blocks: Blocks, itemsize: int) -> int:
    """Return the VMEM that the blocks of x and of the result take, each twice, and the partial results in f32."""
    if len(view) > 2:
        return middle.vmem_bytes(view, blocks.bm, blocks.bn, itemsize)
    bm, bn = block_of(view, axis, blocks)
    if axis == 0:
        result, partial = bn, 8 * bn
    else:
        result, partial = (bm, 128 * whole(bm, 8)) if bm > 1 else (1, 8 * 128)
    rows = whole(bm, 8) if bm > 1 else 1  # a single row is not padded
    return 2 * itemsize * (rows * bn + 8 * whole(result, 128)) + 4 * partial
