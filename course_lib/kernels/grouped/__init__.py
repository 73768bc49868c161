"""Grouped products, as a mixture of experts has them: rows sorted by group, and a matrix for each group."""

from course_lib.kernels.grouped.op import (
    Blocks,
    blocks_for,
    blocks_of,
    check_depth,
    gradients,
    grouped_matmul,
    operands,
    product,
    reference,
    vmem_bytes,
)

__all__ = [
    "Blocks",
    "blocks_for",
    "blocks_of",
    "check_depth",
    "gradients",
    "grouped_matmul",
    "operands",
    "product",
    "reference",
    "vmem_bytes",
]
