"""A matmul with few rows that accumulates in its output."""

import jax.numpy as jnp

from course_lib import grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.lessons.lesson_07 import bfloat16_dots


def _few_rows() -> list[tuple]:
    """Return K and N in whole blocks of 128; the first has three output blocks, because two would pass by luck."""
    sizes = ({"M": 16, "K": 256, "N": 384}, {"M": 5, "K": 384, "N": 256}, {"M": 32, "K": 128, "N": 512})
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), sizes)


def _adds_up_in_the_output(few_rows):
    """Demand that K is cut into blocks, and that nothing is kept in scratch."""
    x, y = _few_rows()[0]
    call = grid.walk(few_rows, x, y).calls[0]
    if call.scratch:
        return (
            "The sum is right, and it grows in scratch; asked for is the sum in o_ref.",
            "the output has the dtype of the sum, so o_ref can hold it.",
        )
    if any(x.shape[1] in operand.block_shape for operand in call.inputs):
        return (
            f"All of K, {x.shape[1]}, is in one block; asked for are blocks of 128 along N and K.",
            "give the reduction an axis of the grid, with a block of (M, 128) of x and of (128, 128) of y.",
        )
    if any(y.shape[1] in operand.block_shape for operand in call.outputs):
        return (
            f"All of N, {y.shape[1]}, is in one block; asked for are blocks of 128 along N and K.",
            "give N an axis of the grid, too: the first one, since K must be last.",
        )
    return None


EXERCISE = Exercise(
    id="07.1",
    title="Few rows: a sum in the output",
    kind="write",
    defines="few_rows",
    cases=_few_rows,
    reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32),
    also=(
        _adds_up_in_the_output,
        bfloat16_dots.demanded(_few_rows, "multiply the blocks as they came; float32 is what comes out."),
    ),
    hints=(
        "Two axes: which one chooses the output block, and which one adds to it? All steps of one output block must be "
        "consecutive.",
        "The grid is (N // 128, K // 128), and the kernel asks for pl.program_id(1): o_ref is set to zero at its first "
        "step.",
        "The maps are lambda j, k: (0, k) for x, (k, j) for y and (0, j) for the output; the dot names "
        "preferred_element_type=jnp.float32.",
    ),
    points=2,
)
