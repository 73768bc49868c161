"""One kernel with four mistakes, to repair."""

import jax.numpy as jnp
import numpy as np

from course_lib import grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit


def _whole_blocks() -> list[tuple]:
    """Return sizes that the blocks divide; 07.7 handles edges. With only two output blocks it would pass by luck."""
    sizes = ({"M": 96, "K": 512, "N": 256}, {"M": 32, "K": 256, "N": 384}, {"M": 64, "K": 128, "N": 128})
    return arguments(("x: bf16[M,K]", "y: bf16[K,N]"), sizes)


def _in_the_same_blocks(mended):
    call = grid.walk(mended, *_whole_blocks()[0]).calls[0]
    shapes = [tuple(map(int, operand.block_shape)) for operand in (*call.inputs, *call.outputs)]
    if shapes != [(32, 128), (128, 128), (32, 128)]:
        return (
            f"Its blocks are {', '.join(map(str, shapes))}, but those of broken are (32, 128), (128, 128), (32, 128).",
            "keep the blocks: none of them is a mistake.",
        )
    return None


def asks_the_axis_of_the_sum(mended):
    """Return ``mended`` unchanged. Raise Unfit if it reduces along one grid axis but a condition tests another."""
    try:
        (call,) = grid.walk(mended, *_whole_blocks()[0]).calls
        (sums,) = _axes_where_the_output_stays(call)
        asked = {eqn.params["axis"] for eqn in grid.equations(call.kernel) if eqn.primitive.name == "program_id"}
    except Exception:  # the judges explain better what is wrong with it
        return mended
    if asked - {sums}:
        raise Unfit(
            f"The kernel now sums along axis {sums} of the grid, but a condition tests axis {min(asked - {sums})}.",
            f"use pl.program_id({sums}) and pl.num_programs({sums}) in every condition.",
            headline="the order of the axes is mended, but not every condition.",
        )
    return mended


def _axes_where_the_output_stays(call) -> list[int]:
    """Return the grid axes along which the index of the output does not change."""
    indices = np.asarray(call.outputs[0].indices).reshape(*call.grid, -1)
    return [a for a, size in enumerate(call.grid) if size > 1 and (np.diff(indices, axis=a) == 0).all()]


EXERCISE = Exercise(
    id="07.6",
    title="Repair: four mistakes",
    kind="repair",
    defines="mended",
    cases=_whole_blocks,
    reference=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32).astype(x.dtype),
    build=asks_the_axis_of_the_sum,
    also=(_in_the_same_blocks,),
    hints=(
        "One mistake is something that is missing, one is in the order of the grid, one in a dtype, and one in a map. "
        "The verdict names one of them at a time.",
        "Which block of the output belongs to step (i, j)? What does acc_ref hold before the first step? How often is "
        "its sum rounded? Which axis has to be last, and where does the kernel test it?",
        "Use the grid (m // 32, n // 128, depth // 128), maps with lambda i, j, k, program_id(2) and num_programs(2). "
        "Set acc_ref to zero at the first step of k, make it float32, and map the output to (i, j).",
    ),
    points=2,
)
