"""The blocks of softmax: whole rows, rows cut into pieces, or whole columns, whichever fits into VMEM.

``arrays`` is how many arrays like x a kernel holds: two forwards, three for the gradient. Columns that fit into no VMEM
(from 37,000 f32 elements on, on a v5e) become rows, and XLA transposes them there and back: 2 * M * N * itemsize bytes
more each time. If fewer than 128 columns lie behind the axis, XLA may store the array with the axis last anyway.
"""

import math

import jax
from jax.experimental import pallas as pl

from course_lib.arrays import Described
from course_lib.kernels.common import axes, chip, row_blocks
from course_lib.kernels.common.compiler_params import check_fits
from course_lib.kernels.common.legal import LANES, SUBLANES
from course_lib.kernels.common.symbolic import planned
from course_lib.kernels.softmax.kernel import Blocks

_TEMPORARIES = 2  # f32 values of a block's size that live while it is computed


def fastest(x: Described, axis: int, arrays: int) -> Blocks:
    """Return the blocks that should be fastest on the chip traced for."""
    if not by_rows(x, axis, arrays):
        return _of_columns(axes.seen_as(planned(x.shape), axis), x.dtype.itemsize, arrays)
    x = _with_axis_last(x, axis)
    if x.shape[-1] > row_blocks.longest_row(x.dtype.itemsize, arrays, _TEMPORARIES):
        return Blocks(bm=16, bn=16384)
    return Blocks(bm=row_blocks.rows_for(x, arrays, _TEMPORARIES))


def chosen(blocks: Blocks | None, x: Described, axis: int, arrays: int) -> tuple[Blocks, int]:
    """Return ``blocks``, or the fastest if they are None, and the bytes of VMEM that they take.

    Raises ValueError if the chip has less.
    """
    blocks = blocks or fastest(x, axis, arrays)
    if by_rows(x, axis, arrays):
        x = _with_axis_last(x, axis)
        needed = row_blocks.needed(blocks.bm, blocks.bn or x.shape[-1], x, arrays, _TEMPORARIES)
    else:
        needed = _vmem_bytes(block_of_columns(x.shape, axis, blocks), x.dtype.itemsize, arrays)
    check_fits(blocks, needed)
    return blocks, needed


def by_rows(x: Described, axis: int, arrays: int) -> bool:
    """Whether ``axis`` is the last or should become it: because XLA stores x so, or its columns do not fit in VMEM."""
    shape = planned(x.shape)
    if axes.is_better_last(shape, axis):
        return True
    view = axes.seen_as(shape, axis)
    smallest = axes.block(view, view[1], 1, LANES)
    return _vmem_bytes(smallest, x.dtype.itemsize, arrays) > chip.usable_vmem_bytes()


def block_of_columns(shape: tuple[int, ...], axis: int, blocks: Blocks) -> tuple[int, ...]:
    """Return the block of whole columns of ``axes.seen_as(shape, axis)``."""
    view = axes.seen_as(planned(shape), axis)
    return axes.block(view, view[1], blocks.bm, blocks.bn or view[-1])


def _of_columns(view: tuple[int, ...], itemsize: int, arrays: int) -> Blocks:
    """Return blocks of about 2 MiB in f32, less if the array is small, with many columns: that makes long copies."""
    _, size, *deep, columns = view
    elements = min(2**19, max(2**17, math.prod(view) // 4), chip.usable_vmem_bytes() // _per_element(itemsize, arrays))
    least = size * min(SUBLANES, *deep) if deep else size  # rows
    bn = max(1, elements // least // LANES) * LANES
    bn = min(bn, pl.cdiv(columns, LANES) * LANES)
    bm = max(least, min(math.prod(view[:-1]), elements // bn))
    return Blocks(bm=pl.cdiv(bm, SUBLANES) * SUBLANES, bn=bn)


def _with_axis_last(x: Described, axis: int) -> jax.ShapeDtypeStruct:
    shape = planned(x.shape)
    return jax.ShapeDtypeStruct((*shape[:axis], *shape[axis + 1 :], shape[axis]), x.dtype)


def _vmem_bytes(block: tuple[int, ...], itemsize: int, arrays: int) -> int:
    *outer, rows, columns = block
    padded = pl.cdiv(rows, SUBLANES) * SUBLANES * pl.cdiv(columns, LANES) * LANES
    return math.prod(outer) * padded * _per_element(itemsize, arrays)


def _per_element(itemsize: int, arrays: int) -> int:
    return 2 * arrays * itemsize + 4 * _TEMPORARIES
