"""The wrong line of a listing: a grid that leaves out the last rows."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.find import Find

ROW_MAX = """\
def row_max_kernel(x_ref, o_ref):
    o_ref[...] = jnp.max(x_ref[...], axis=1, keepdims=True)


def row_max(x):
    rows, columns = x.shape
    x_block = pl.BlockSpec((8, columns), lambda i: (i, 0))
    o_block = pl.BlockSpec((8, 1), lambda i: (i, 0))
    return pl.pallas_call(
        row_max_kernel,
        out_shape=jax.ShapeDtypeStruct((rows, 1), x.dtype),
        grid=(rows // 8,),
        in_specs=[x_block],
        out_specs=o_block,
    )(x)
"""

EXERCISE = Exercise(
    id="04.9",
    title="Find the line",
    kind="find",
    defines="line",
    listing=ROW_MAX,
    inputs=("x: f32[M,N]",),
    sizes=({"M": 20, "N": 256}, {"M": 16, "N": 384}, {"M": 13, "N": 130}),
    reference=lambda x: jnp.max(x, axis=1, keepdims=True),
    asks=Find(
        line=12,
        fixed="        grid=(pl.cdiv(rows, 8),),",
        function="row_max",
        refused_by="numbers",
        near={
            2: "What lies past the end are rows of their own, so they cannot change the maximum of another row.",
            7: "The block spans every column, and 8 rows are legal for any number of rows. A last block that extends "
            "past the end does no harm.",
            8: "The output has one column and the block spans it, so the block is legal. Output block i belongs "
            "to block i of x.",
            11: "The result has one number for each row, whether or not 8 divides the number of rows.",
        },
        why="20 rows need three steps, and 20 // 8 is 2.",
    ),
    hints=(
        "With 16 rows the result is right. What is different about 20 rows?",
        "How many blocks of 8 rows does it take to cover 20 rows, and how many does the grid visit?",
        "The operator // rounds down, and pl.cdiv rounds up.",
    ),
    points=1,
)
