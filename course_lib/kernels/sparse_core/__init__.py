"""Rows by index on the SparseCores of a TPU: gather, scatter-add, histogram; plain JAX on other machines."""

from course_lib.kernels.sparse_core.kernel import gather_rows_reference, histogram_reference, scatter_add_reference
from course_lib.kernels.sparse_core.op import gather_rows, histogram, scatter_add

__all__ = [
    "gather_rows_reference",
    "gather_rows",
    "histogram",
    "histogram_reference",
    "scatter_add",
    "scatter_add_reference",
]
