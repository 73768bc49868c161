"""How many blocks are copied for a list, on four grids."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import cost, grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

CHOSEN = (7, 7, 2, 2, 2, 7, 0, 0)


def _copies(sizes: tuple[int, ...], t: int, chosen: tuple[int, ...] = CHOSEN) -> int:
    """Return the copies of x on a grid of these sizes, of which number ``t`` runs over the list."""

    def kernel(chosen_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def call(x, chosen):
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype),
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=sizes,
                in_specs=[pl.BlockSpec((8, 128), lambda *at: (at[-1][at[t]], 0))],
                out_specs=pl.BlockSpec((8, 128), lambda *at: (0, 0)),
            ),
        )(chosen, x)

    walk = grid.walk(call, jax.ShapeDtypeStruct((64, 128), jnp.float32), np.array(chosen, np.int32))
    return next(row.copies for row in cost.traffic(walk) if row.name == "x_ref")


_EVERY_STEP = "That is every step. At which of them is the index the same as a step before?"
_DIFFERENT = "That counts the different numbers. Block 7 is left and come back to: is it still there?"

PARTS = {
    "A": Predict(
        value=4,
        unit="",
        tolerance=0,
        near={
            8: _EVERY_STEP,
            3: _DIFFERENT,
            5: "How often does the index change? The first copy counts, too.",
        },
        why="7, 2, 7, 0.",
        proof=lambda: _copies((8,), 0),
        stands_above="as a size, or a number of blocks or steps",
    ),
    "B": Predict(
        value=12,
        unit="",
        tolerance=0,
        near={
            24: _EVERY_STEP,
            4: "That is once through the list. How often does the grid go through it?",
            9: _DIFFERENT,
            10: "From one pass to the next the index goes from 0 to 7. Is that the same block?",
        },
        why="t is the last axis, so the list runs three times, and 0 is followed by 7.",
        proof=lambda: _copies((3, 8), 1),
        stands_above="as a size, or a number of blocks or steps",
    ),
    "C": Predict(
        value=4,
        unit="",
        tolerance=0,
        near={
            24: _EVERY_STEP,
            12: "Which axis is the last here? While j counts, does the index change?",
            3: _DIFFERENT,
            8: "The list has equal neighbors. Is a block copied again that is there?",
        },
        why="the index stays while j counts.",
        proof=lambda: _copies((8, 3), 0),
        stands_above="as a size, or a number of blocks or steps",
    ),
    "D": Predict(
        value=9,
        unit="",
        tolerance=0,
        near={
            24: _EVERY_STEP,
            12: "Sorted, equal numbers are neighbors: how many changes has one pass now?",
            3: "That is once through the list. How often does the grid go through it?",
            7: "From one pass to the next the index goes from 7 to 0. Is that the same block?",
        },
        why="0, 2, 7 in each pass.",
        proof=lambda: _copies((3, 8), 1, tuple(sorted(CHOSEN))),
    ),
}

EXERCISE = Exercise(
    id="12.1",
    title="Predict: copies from a list",
    kind="several",
    defines="copies",
    asks=Several(parts=PARTS, why="a block is copied where its index changes, wherever the index comes from."),
    hints=(
        "Write down the block of x at each step, in the order of the grid. The last axis counts fastest.",
        "A copy is made at the first step, and wherever the block is another one than a step before.",
        "A: 7 7 2 2 2 7 0 0 changes three times. B: the same three times over, with 0 before 7 in between. C: each of "
        "the eight stands there three times. D: B with another list.",
    ),
    points=2,
)
