"""Softmax: ``o[i, j] = exp(x[i, j] - max_j x[i, j]) / sum_j exp(x[i, j] - max_j x[i, j])``."""

from course_lib.kernels.softmax.kernel import Blocks, reference
from course_lib.kernels.softmax.op import blocks_for, softmax

__all__ = ["Blocks", "blocks_for", "reference", "softmax"]
