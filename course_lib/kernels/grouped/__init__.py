"""Grouped matrix products, as in a mixture of experts: rows sorted by group, and a matrix for each group."""

from course_lib.kernels.grouped.blocks import blocks_of, check_depth, vmem_bytes
from course_lib.kernels.grouped.kernel import Blocks, reference
from course_lib.kernels.grouped.op import blocks_for, gradients, grouped_matmul, operands, product

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
