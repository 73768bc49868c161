"""Matrix multiplication: ``o = x @ y``, for f32 and bf16; and int8 times int8, summed in int32."""

from course_lib.kernels.matmul.kernel import (
    Blocks,
    blocks_for,
    blocks_of,
    candidates,
    gradients,
    matmul,
    matmul_transposed,
    matmul_transposed_reference,
    out_dtype,
    reference,
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
    "out_dtype",
    "reference",
]
