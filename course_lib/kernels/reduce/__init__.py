"""Reductions: ``o[i] = sum_j x[i, j]``, the maximum likewise, over any axis, over several, or over everything."""

from course_lib.kernels.reduce.kernel import Axes, Blocks, max_over_reference, sum_over_reference
from course_lib.kernels.reduce.op import blocks_for, max_over, sum_over

__all__ = ["Axes", "Blocks", "blocks_for", "max_over", "max_over_reference", "sum_over", "sum_over_reference"]
