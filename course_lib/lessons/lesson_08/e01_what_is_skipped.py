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
            49: "That is every step. In how many is j <= i?",
            21: "That leaves out the diagonal. Is j <= i there?",
            24.5: "Half of all. What about the diagonal?",
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
            28: "That is where the body works. Who starts the copies, the body or the pipeline?",
            7: "That is a row of blocks. How often does (i, j) change?",
        },
        why="the map changes at every step, and the pipeline copies what it says.",
        proof=lambda: _copies(lambda i, j: (i, j)),
        stands_above="as the width of a column, or a number of bundles or cycles",
    ),
    "C": Predict(
        value=28,
        unit="",
        tolerance=0,
        near={
            49: "To the right of the diagonal the index stays (i, i). Is a block copied again that is there?",
            21: "That leaves out the diagonal's blocks, and they are needed.",
            34: "The last block of a row is at the diagonal. When the next row begins, is that one copy or two?",
        },
        why="row i has i + 1 blocks up to the diagonal, and stays there.",
        proof=lambda: _copies(lambda i, j: (i, jnp.minimum(i, j))),
        stands_above="as the width of a column, or a number of bundles or cycles",
    ),
    "D": Predict(
        value=33,
        unit="",
        tolerance=0,
        near={
            28: "To the right of the diagonal it goes back to block 0 of the row. Is that one still there?",
            49: "From one step to the right of the diagonal to the next the index does not change.",
            34: "One row too many: does every row that goes back to block 0 leave it before?",
            35: "Not every row goes back: which rows have nothing to the right, or are at block 0 anyhow?",
            27: "Going back to block 0 is a copy more, not one less.",
        },
        why="rows 1 to 5 copy their first block once more.",
        proof=lambda: _copies(lambda i, j: (i, jnp.where(j <= i, j, 0))),
    ),
}

EXERCISE = Exercise(
    id="08.1",
    title="Predict: what is skipped",
    kind="several",
    defines="skipped",
    asks=Several(parts=PARTS, why="pl.when skips work; a map that stays skips copies; one that jumps does not."),
    hints=(
        "A counts steps. B, C and D count how often the block index changes, from step to step in the order of the "
        "grid, the very first copy included.",
        "Write down the indices of row 2: for C they are (2, 0), (2, 1), (2, 2), (2, 2) and so on; for D they end with "
        "(2, 0), four times.",
        "A: 1 + 2 + ... + 7. B: one a step. C: i + 1 for row i. D: as C, and one more for each row that has both a "
        "block beside block 0 and something to the right of the diagonal.",
    ),
    points=2,
)
