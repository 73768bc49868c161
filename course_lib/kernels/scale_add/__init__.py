"""``o = a * x + y`` for a scalar ``a`` and arrays of any shape; its gradient is one kernel, too."""

from course_lib.kernels.elementwise.kernel import Blocks
from course_lib.kernels.scale_add.kernel import reference
from course_lib.kernels.scale_add.op import blocks_for, scale_add

__all__ = ["Blocks", "blocks_for", "reference", "scale_add"]
