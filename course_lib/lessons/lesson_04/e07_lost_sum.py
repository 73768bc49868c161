"""A sum that is lost because its block is left and revisited, to repair."""

from course_lib import grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments


def _folds() -> list[tuple]:
    """Return arrays whose rows 8 divides, because blocks of eight rows are added; any number of columns.

    The first has three output blocks, because with two each would return to the buffer that still holds it.
    """
    return arguments(("x: f32[M,N]",), ({"M": 32, "N": 384}, {"M": 24, "N": 300}, {"M": 16, "N": 100}))


def _fold(x):
    return x.reshape(-1, 8, x.shape[1]).sum(axis=0)


def _in_the_same_blocks(fold):
    call = grid.walk(fold, *_folds()[0]).calls[0]
    shape = tuple(int(n) for n in call.inputs[0].block_shape)
    if shape != (8, 128):
        return (
            f"The blocks of {call.inputs[0].name} are {shape}; asked for are those of fold_broken, (8, 128).",
            "keep the blocks, and change the order in which the grid visits them.",
        )


EXERCISE = Exercise(
    id="04.7",
    title="Repair: a sum that is gone when you come back",
    kind="repair",
    defines="fold",
    cases=_folds,
    reference=_fold,
    also=(_in_the_same_blocks,),
    hints=(
        "Write down the output's block at each step of fold_broken for three columns of blocks. When is it left, and "
        "when visited again?",
        "The axis along which the output's block stays the same goes last: the grid is (columns, rows), in blocks. "
        "What becomes of the index maps, and of the condition in the kernel?",
        "Both maps begin lambda j, k: and return what they returned; the kernel asks for pl.program_id(1) now, "
        "since the reduction is axis 1.",
    ),
    points=2,
)
