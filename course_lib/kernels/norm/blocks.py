"""The blocks of the norms: how many whole rows fit, and are enough for copies to overlap work.

``arrays`` is how many arrays like x a kernel holds, results included.
"""

from course_lib.arrays import Described
from course_lib.kernels.common import row_blocks
from course_lib.kernels.common.compiler_params import check_fits
from course_lib.kernels.common.symbolic import planned
from course_lib.kernels.norm.kernel import Blocks

# f32 values of a block's size that live while it is computed, and bytes of a block in f32: of the gradient's, half as
# many, or the compiler takes long.
_FORWARD = 2, 2 << 20
_GRADIENT = 3, 1 << 20


def fastest(x: Described, arrays: int, *, gradient: bool = False) -> Blocks:
    """Return the blocks that should be fastest. Raises ValueError if 8 rows do not fit, and names the longest row."""
    return Blocks(bm=row_blocks.rows_for(x, arrays, *(_GRADIENT if gradient else _FORWARD)))


def chosen(blocks: Blocks | None, x: Described, arrays: int, *, gradient: bool = False) -> tuple[int, int]:
    """Return the rows of a block and the bytes of VMEM that the blocks take. Raises ValueError if there are fewer."""
    blocks = blocks or fastest(x, arrays, gradient=gradient)
    needed = _needed(blocks.bm, x, arrays, gradient)
    check_fits(blocks, needed)
    return blocks.bm, needed


def along_lanes(x: Described, arrays: int, *, gradient: bool = False) -> tuple[int, int] | None:
    """Return the same for the transpose of a matrix that XLA stores by columns; None for other arrays."""
    bm = row_blocks.lanes_for(x, arrays, *(_GRADIENT if gradient else _FORWARD))
    return bm and (bm, _needed(bm, x, arrays, gradient))


def _needed(bm: int, x: Described, arrays: int, gradient: bool) -> int:
    temporaries, _ = _GRADIENT if gradient else _FORWARD
    return row_blocks.needed(bm, planned(x.shape)[-1], x, arrays, temporaries)
