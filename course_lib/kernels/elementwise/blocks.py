"""How elementwise kernels see an array, and in which blocks; right for every chip."""

import math

from course_lib.kernels.common.legal import LANES, SUBLANES, step
from course_lib.kernels.common.symbolic import cut, is_known, planned
from course_lib.kernels.elementwise.kernel import Blocks


def blocks_of(shape: tuple[int, ...], itemsize: int) -> Blocks:
    """Return the blocks for operands of ``shape`` whose widest has ``itemsize`` bytes an element.

    A block has about 1 MiB, so that five operands fit into the 16 MiB that a kernel has on every TPU. It is smaller if
    the array is small, because no work hides the first copy in and the last one out. Predicted for ``add`` of f32
    (8192, 2048) on a v5e: 118k cycles with 256 rows, 236k with 32 and 680k with 8, where HBM needs 369k.
    """
    shape = planned(shape)
    rows, columns = math.prod(shape[:-1]), shape[-1] if shape else 1
    elements = min(2**20 // itemsize, max(2**19 // itemsize, math.prod(shape) // 4))
    rows, columns = (-(-n // tile) * tile for n, tile in ((rows, SUBLANES), (columns, LANES)))
    bn = min(columns, max(2048, elements // rows // 128 * 128))
    bn = -(-columns // -(-columns // bn) // 128) * 128  # equal parts, because a block past the edge costs as much
    bm = min(rows, max(32, elements // bn // 32 * 32))  # whole registers, of one-byte types too
    return Blocks(bm=bm, bn=bn)


def seen_as(
    shape: tuple[int, ...], itemsize: int, blocks: Blocks, mapped: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the view and the block shape for an array whose narrowest dtype has ``itemsize`` bytes.

    ``mapped`` says that jax.vmap is going to add an axis.
    """
    if len(shape) != 1:
        view = math.prod(shape[:-1]), (shape[-1] if shape else 1)
        return view, (cut(blocks.bm, view[0]), cut(blocks.bn, view[1]))
    length = blocks.bm * blocks.bn
    chunk = step(0, 1)
    block = shape[0] if cut(length, shape[0]) == shape[0] else max(chunk, length // chunk * chunk)
    # A vector of four-byte elements lies in memory as a row of a matrix does if it fills its tiles. Otherwise that view
    # costs a copy, which only jax.vmap is worth: it puts more rows beside this one, and then no vector can be a block.
    is_row = itemsize == 4 and is_known(shape[0]) and shape[0] % chunk == 0
    return ((1, shape[0]), (1, block)) if mapped or is_row else (shape, (block,))


def vmem_bytes(block: tuple[int, ...], itemsizes: list[int]) -> int:
    """Return the VMEM that blocks of one shape take: each is held twice, its last axis padded to 128 elements."""
    return 2 * sum(itemsizes) * math.prod(block[:-1]) * -(-block[-1] // 128) * 128
