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
            "The result is right, but the kernel accumulates in scratch, and it should accumulate in o_ref.",
            "drop the scratch: the output has the dtype of the sum, so o_ref can be the accumulator.",
        )
    if any(x.shape[1] in operand.block_shape for operand in call.inputs):
        return (
            f"All of K, {x.shape[1]}, is in one block, but N and K should be cut into blocks of 128.",
            "give the reduction an axis of the grid, with blocks of (M, 128) for x and of (128, 128) for y.",
        )
    if any(y.shape[1] in operand.block_shape for operand in call.outputs):
        return (
            f"All of N, {y.shape[1]}, is in one block, but N and K should be cut into blocks of 128.",
            "give N an axis of the grid too, namely the first one, because K must be last.",
        )
    return None


EXERCISE = Exercise(
    id="07.1",
    title="Few rows: accumulate in the output",
    kind="write",
    defines="few_rows",
    cases=_few_rows,
    reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32),
    also=(
        _adds_up_in_the_output,
        bfloat16_dots.demanded(
            _few_rows, "multiply the bfloat16 blocks as they are; preferred_element_type makes the result float32."
        ),
    ),
    hints=(
        "The grid has two axes. Which one chooses the output block, and along which one does the block accumulate? All "
        "steps of one output block must be consecutive.",
        "The grid is (N // 128, K // 128), and the kernel sets o_ref to zero at the first step along K, where "
        "pl.program_id(1) is 0.",
        "The maps are lambda j, k: (0, k) for x, (k, j) for y and (0, j) for the output, and the dot names "
        "preferred_element_type=jnp.float32.",
    ),
    points=2,
)
