"""Steps that compute and blocks that are copied below a diagonal, for three index maps."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import cost, grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

BLOCKS, SIDE = 7, 256


def _copies(index_map) -> int:
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(1) <= pl.program_id(0))
        def work():
            o_ref[...] = x_ref[:8]

    def call(x):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8 * BLOCKS, SIDE), x.dtype),
            grid=(BLOCKS, BLOCKS),
            in_specs=[pl.BlockSpec((SIDE, SIDE), index_map)],
            out_specs=pl.BlockSpec((8, SIDE), lambda i, j: (i, 0)),
        )(x)

    walk = grid.walk(call, jax.ShapeDtypeStruct((BLOCKS * SIDE, BLOCKS * SIDE), jnp.float32))
    return cost.traffic(walk)[0].copies


def _steps_at_work() -> int:
    return sum(j <= i for i in range(BLOCKS) for j in range(BLOCKS))


PARTS = {
    "A": Predict(
        value=28,
        unit="",
        tolerance=0,
        near={
            49: "That is the number of all steps. In how many of them is j <= i?",
            21: "That leaves out the diagonal. Does j <= i hold there?",
            24.5: "That is half of all steps. What about the diagonal?",
        },
        why="1 + 2 + ... + 7.",
        proof=_steps_at_work,
        stands_above="as the width of a column, or a number of bundles or cycles",
    ),
    "B": Predict(
        value=49,
        unit="",
        tolerance=0,
        near={
            28: "That is the number of steps in which the body works. What starts the copies, the body or the "
            "pipeline?",
            7: "That is one row of blocks. How often does (i, j) change?",
        },
        why="the index changes at every step, and the pipeline copies the block with that index.",
        proof=lambda: _copies(lambda i, j: (i, j)),
        stands_above="as the width of a column, or a number of bundles or cycles",
    ),
    "C": Predict(
        value=28,
        unit="",
        tolerance=0,
        near={
            49: "To the right of the diagonal the index stays (i, i). Is a block copied again if it is already in "
            "VMEM?",
            21: "That leaves out the blocks on the diagonal, which are needed.",
            34: "Every row ends with its block on the diagonal. When the next row begins, does that take one copy or "
            "two?",
        },
        why="row i has i + 1 blocks up to the diagonal, and after that the index stays.",
        proof=lambda: _copies(lambda i, j: (i, jnp.minimum(i, j))),
        stands_above="as the width of a column, or a number of bundles or cycles",
    ),
    "D": Predict(
        value=33,
        unit="",
        tolerance=0,
        near={
            28: "To the right of the diagonal the map goes back to block 0 of the row. Is that block still in VMEM?",
            49: "To the right of the diagonal the index does not change from one step to the next.",
            34: "That is one row too many. Has every row that goes back to block 0 left it before?",
            35: "Not every row goes back. Which rows have nothing to the right of the diagonal, or are at block 0 "
            "anyway?",
            27: "Going back to block 0 costs a copy and does not save one.",
        },
        why="each of rows 1 to 5 copies its first block once more.",
        proof=lambda: _copies(lambda i, j: (i, jnp.where(j <= i, j, 0))),
    ),
}

EXERCISE = Exercise(
    id="08.1",
    title="Predict: what is skipped",
    kind="several",
    defines="skipped",
    asks=Several(parts=PARTS, why="pl.when skips work, a map that stays skips copies, and one that jumps does not."),
    hints=(
        "A counts steps. B, C and D count how often the block index changes from one step of the grid to the next, "
        "and the very first block counts as a change.",
        "Write down the indices of row 2. For C they are (2, 0), (2, 1), (2, 2), (2, 2) and so on; for D they end "
        "with (2, 0), four times.",
        "A is 1 + 2 + ... + 7. B is one copy for each step. C is i + 1 copies for row i. D is C plus one copy for "
        "each row that works on more than block 0 and also has something to the right of the diagonal.",
    ),
    points=2,
)
