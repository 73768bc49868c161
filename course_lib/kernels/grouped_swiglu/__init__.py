"""The first half of an expert's feed-forward layer in one kernel: ``silu(x_e @ w_gate[e]) * (x_e @ w_up[e])``."""

from course_lib.kernels.grouped.kernel import Blocks
from course_lib.kernels.grouped_swiglu.kernel import reference
from course_lib.kernels.grouped_swiglu.op import blocks_for, grouped_swiglu

__all__ = ["Blocks", "blocks_for", "grouped_swiglu", "reference"]
