"""Four mistakes: an `if` on a traced value, a wrong start, a mask after the minimum, and a block-local index."""

import jax.numpy as jnp

from course_lib import grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, far_from_zero


def _columns() -> list[tuple]:
    """Return at least three blocks of rows; large values, finally very large ones, so that any start but inf shows."""
    sizes = ({"M": 48, "N": 384}, {"M": 40, "N": 256}, {"M": 5, "N": 128})
    return [*arguments(("x: f32[M,N]",), sizes, (), (2e6, 9e6)), (far_from_zero((128, 40), 1e30).T,)]


def _in_the_same_blocks(mended):
    call = grid.walk(mended, *_columns()[0]).calls[0]
    shapes = [tuple(map(int, operand.block_shape)) for operand in (*call.inputs, *call.outputs)]
    if shapes != [(16, 128), (1, 128)]:
        return (
            f"The blocks of mended are {', '.join(map(str, shapes))}; those of broken are (16, 128), (1, 128).",
            "keep the blocks, because none of them is a mistake.",
        )
    return None


EXERCISE = Exercise(
    id="08.7",
    title="Repair: the smallest of each column",
    kind="repair",
    defines="mended",
    cases=_columns,
    reference=lambda x: jnp.min(x, axis=0, keepdims=True),
    slips=(
        judges.Slip(
            means="the minimum includes a 0, which is smaller than all of x",
            value=lambda x: jnp.zeros_like(x[:1]),
            next="which value is neutral for a minimum? Use it as the initial value, and in the mask.",
        ),
    ),
    also=(_in_the_same_blocks,),
    hints=(
        "Who decides at `if i == 0`? With which value does a minimum begin? To what is the mask applied, and which "
        "rows does it count?",
        "Initialize under pl.when, and with inf, which is neutral for a minimum, whereas 0 is not. Mask the block and "
        "not its minimum. The iota counts within the block only.",
        "Under @pl.when(i == 0), write jnp.full(o_ref.shape, jnp.inf, o_ref.dtype) to o_ref. With row = 16 * i + "
        "iota, mask by jnp.where(row < rows, x_ref[...], jnp.inf), and then take the minimum.",
    ),
    points=2,
)
