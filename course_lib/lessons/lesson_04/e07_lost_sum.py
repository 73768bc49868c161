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
            f"The blocks of {call.inputs[0].name} are {shape}. They should be those of fold_broken, (8, 128).",
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
        "Write down the output block at each step of fold_broken, for three columns of blocks. When does the grid "
        "leave a block, and when does it visit the same block again?",
        "The axis along which the output block stays the same goes last, so the grid is (columns, rows), in blocks. "
        "How does this change the index maps, and the condition in the kernel?",
        "Both maps begin with lambda j, k: and return the same as before. The kernel now needs pl.program_id(1), "
        "because the reduction is axis 1.",
    ),
    points=2,
)
