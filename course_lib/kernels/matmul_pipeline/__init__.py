"""The product of ``matmul`` with its pipeline spelled out."""

from course_lib.kernels.matmul.kernel import Blocks, reference
from course_lib.kernels.matmul_pipeline.op import blocks_for, matmul_pipelined

__all__ = ["Blocks", "blocks_for", "matmul_pipelined", "reference"]
