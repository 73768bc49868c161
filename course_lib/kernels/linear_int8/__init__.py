"""A linear layer whose weight is stored in int8: ``y = act(x @ (scale * q) + b)``, one scale per column of q."""

from course_lib.kernels.linear_int8.kernel import reference
from course_lib.kernels.linear_int8.op import blocks_for, linear_int8, quantize
from course_lib.kernels.matmul.kernel import Blocks

__all__ = ["Blocks", "blocks_for", "linear_int8", "quantize", "reference"]
