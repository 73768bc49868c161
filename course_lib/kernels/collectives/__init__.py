"""Collectives on a ring of devices by remote copies: all-gather, reduce-scatter, and each of them with a matmul."""

from course_lib.kernels.collectives.kernel import (
    all_gather_matmul_reference,
    all_gather_reference,
    matmul_reduce_scatter_reference,
    reduce_scatter_reference,
)
from course_lib.kernels.collectives.op import all_gather, all_gather_matmul, matmul_reduce_scatter, reduce_scatter

__all__ = [
    "all_gather",
    "all_gather_matmul",
    "all_gather_matmul_reference",
    "all_gather_reference",
    "matmul_reduce_scatter",
    "matmul_reduce_scatter_reference",
    "reduce_scatter",
    "reduce_scatter_reference",
]
