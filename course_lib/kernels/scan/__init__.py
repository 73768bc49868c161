"""Cumulative sums along any axis: ``o[i, j] = x[i, 0] + ... + x[i, j]``, or down the rows, forwards or in reverse."""

from course_lib.kernels.scan.kernel import Blocks, reference
from course_lib.kernels.scan.op import blocks_for, cumsum

__all__ = ["Blocks", "blocks_for", "cumsum", "reference"]
