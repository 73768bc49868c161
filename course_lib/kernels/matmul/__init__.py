"""Matrix multiplication: ``o = x @ y``, for f32 and bf16; and for int8, accumulated in int32."""

from course_lib.kernels.matmul.kernel import Blocks, reference
from course_lib.kernels.matmul.op import (
    blocks_for,
    blocks_of,
    candidates,
    gradients,
    matmul,
    matmul_transposed,
    matmul_transposed_reference,
)

__all__ = [
    "Blocks",
    "blocks_for",
    "blocks_of",
    "candidates",
    "gradients",
    "matmul",
    "matmul_transposed",
    "matmul_transposed_reference",
    "reference",
]
