"""An index map that counts elements instead of blocks, to repair."""

from jax.experimental import pallas as pl

from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments
from course_lib.checks.unfit import Unfit, described


def double_kernel(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]


def _boxes() -> list[tuple]:
    """Return boxes that blocks of (2, 8, 128) divide, because this exercise is about the map, not the edge."""
    return arguments(
        ("x: f32[A,B,C]",), ({"A": 4, "B": 24, "C": 256}, {"A": 2, "B": 8, "C": 384}, {"A": 6, "B": 16, "C": 128})
    )


def _call_box(index_map):
    if not callable(index_map):
        raise Unfit(f"You passed {described(index_map)} to the check.", "pass it the function block_of_step.")

    def double_box(x):
        block = pl.BlockSpec((2, 8, 128), index_map)
        steps = (x.shape[0] // 2, x.shape[1] // 8, x.shape[2] // 128)
        return pl.pallas_call(double_kernel, out_shape=x, grid=steps, in_specs=[block], out_specs=block)(x)

    return double_box


EXERCISE = Exercise(
    id="04.6",
    title="Repair: an index map from a collection of puzzles",
    kind="repair",
    defines="block_of_step",
    cases=_boxes,
    reference=lambda x: 2 * x,
    build=_call_box,
    hints=(
        "Pallas multiplies what an index map returns by the block's sizes. What is left for the map to return?",
        "Step (1, 0, 0) needs elements 2 and 3 on the first axis, which are block 1 on that axis.",
        "One line is enough: return (i, j, k)",
    ),
    points=1,
)
