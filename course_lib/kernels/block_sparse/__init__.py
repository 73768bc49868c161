"""Block-sparse products: of a matrix of which only some blocks are kept, and of two matrices, of some blocks alone."""

from course_lib.kernels.block_sparse.conversion import from_dense, from_mask, to_dense
from course_lib.kernels.block_sparse.kernel import Blocks, dsd_reference
from course_lib.kernels.block_sparse.op import dsd, dsd_blocks_for, sdd, sdd_blocks_for
from course_lib.kernels.block_sparse.pattern import Pattern, in_blocks
from course_lib.kernels.block_sparse.sdd_kernel import sdd_reference

__all__ = [
    "Blocks",
    "Pattern",
    "dsd",
    "dsd_blocks_for",
    "dsd_reference",
    "from_dense",
    "from_mask",
    "in_blocks",
    "sdd",
    "sdd_blocks_for",
    "sdd_reference",
    "to_dense",
]
