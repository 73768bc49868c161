"""A linear layer in one kernel, ``y = act(x @ w + b)``, and its gradient in two."""

from course_lib.kernels.linear.kernel import reference
from course_lib.kernels.linear.op import Residuals, blocks_for, linear
from course_lib.kernels.matmul.kernel import Blocks

__all__ = ["Blocks", "Residuals", "blocks_for", "linear", "reference"]
