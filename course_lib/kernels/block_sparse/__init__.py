"""Block-sparse products: of a matrix of which only some blocks are kept, and of two matrices, of some blocks alone."""

from course_lib.kernels.block_sparse.op import (
    Blocks,
    dsd,
    dsd_blocks_for,
    dsd_reference,
    sdd,
    sdd_blocks_for,
    sdd_reference,
)
from course_lib.kernels.block_sparse.pattern import Pattern, from_dense, from_mask, to_dense

__all__ = [
    "Blocks",
    "Pattern",
    "dsd",
    "dsd_blocks_for",
    "dsd_reference",
    "from_dense",
    "from_mask",
    "sdd",
    "sdd_blocks_for",
    "sdd_reference",
    "to_dense",
]
