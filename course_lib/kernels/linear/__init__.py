"""A linear layer in one kernel: ``y = act(z)`` with ``z = x @ w + b``; and its gradient."""

from course_lib.kernels.linear.kernel import Blocks, Residuals, blocks_for, linear, reference

__all__ = ["Blocks", "Residuals", "blocks_for", "linear", "reference"]
