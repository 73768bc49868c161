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
    """Return how often x is copied on a grid of these sizes, whose axis number ``t`` runs over the list."""

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


_EVERY_STEP = "That counts every step, even if its index is the same as in the step before."
_DIFFERENT = "That counts the different block numbers. Is block 7 still in VMEM when it is needed again?"

PARTS = {
    "A": Predict(
        value=4,
        unit="",
        tolerance=0,
        near={
            8: _EVERY_STEP,
            3: _DIFFERENT,
            5: "Count the changes of the index, and one copy more for the first step.",
        },
        why="it copies blocks 7, 2, 7 and 0.",
        proof=lambda: _copies((8,), 0),
        stands_above="as a size, or a number of blocks or steps",
    ),
    "B": Predict(
        value=12,
        unit="",
        tolerance=0,
        near={
            24: _EVERY_STEP,
            4: "That is one pass through the list. How many passes does the whole grid make?",
            9: _DIFFERENT,
            10: "Is it the same block when the index goes from 0 to 7 between two passes?",
        },
        why="the grid goes through the list three times, and 7 follows 0 in between.",
        proof=lambda: _copies((3, 8), 1),
        stands_above="as a size, or a number of blocks or steps",
    ),
    "C": Predict(
        value=4,
        unit="",
        tolerance=0,
        near={
            24: _EVERY_STEP,
            12: "Which axis is the last here, and does the index change while it counts?",
            3: _DIFFERENT,
            8: "Is a block copied again for an equal neighbor in the list?",
        },
        why="the index stays the same while j counts.",
        proof=lambda: _copies((8, 3), 0),
        stands_above="as a size, or a number of blocks or steps",
    ),
    "D": Predict(
        value=9,
        unit="",
        tolerance=0,
        near={
            24: _EVERY_STEP,
            12: "How often does the index change in one pass, now that equal numbers are neighbors?",
            3: "That is one pass through the list. How many passes does the whole grid make?",
            7: "Is it the same block when the index goes from 7 to 0 between two passes?",
        },
        why="each pass copies blocks 0, 2 and 7.",
        proof=lambda: _copies((3, 8), 1, tuple(sorted(CHOSEN))),
    ),
}

EXERCISE = Exercise(
    id="12.1",
    title="Predict: copies from a list",
    kind="several",
    defines="copies",
    asks=Several(parts=PARTS, why="a block is copied when its index changes, wherever the index comes from."),
    hints=(
        "Write down the block of x for each step, in the order of the grid, where the last axis counts fastest.",
        "A copy is made in the first step, and in every step that needs another block than the step before.",
        "In A, the list 7 7 2 2 2 7 0 0 changes three times. B goes through it three times, with a change from 0 to 7 "
        "in between. C uses each entry three times in a row, and D is B with the sorted list.",
    ),
    points=2,
)
