"""The least time for the sum of two vectors."""

import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import chips, cost, grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.lessons.lesson_03.product import MI, MI_IS_NOT_M, array


def _add_microseconds() -> float:
    """Return the microseconds to add two float32 vectors of 64 Mi elements at full bandwidth, from the grid steps."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    vector, block = array(64 * MI, dtype=jnp.float32), pl.BlockSpec((MI,), lambda i: (i,))
    add = pl.pallas_call(kernel, out_shape=vector, grid=(64,), in_specs=[block, block], out_specs=block)
    return cost.hbm_bytes(grid.walk(add, vector, vector)) / chips.chip("v5e").hbm_bandwidth * 1e6


EXERCISE = Exercise(
    id="03.1",
    title="Predict: the least time for a sum",
    kind="predict",
    defines="least",
    asks=Predict(
        value=982.1,
        unit="us",
        tolerance=0.01,
        near={
            654.7: "That is x and y, which go in. The sum has to come out as well.",
            327.4: "That is one vector. Three of them move.",
            491.0: "That would be right for numbers of two bytes, bfloat16 say. These are float32.",
            245.5: "That is how many numbers move. How many bytes is one float32?",
            936.6: MI_IS_NOT_M,
            0.3407: "That is the additions, at the peak of the MXU. Is it they that take the time?",
            10.9: "That is the additions, on the VPU. Is it they that take the time?",
            1091: "That is not the least: you have taken the share of the bandwidth that programs reach.",
            1103.5: "That is not the least: you have taken the share of the bandwidth that programs reach.",
        },
        why="three vectors of 256 MiB, at 820 GB/s.",
        proof=_add_microseconds,
    ),
    hints=(
        "Two numbers of the chip, two times; the larger one binds. Which of the two can it be for an addition?",
        "Two vectors go in and one comes out. 64 Mi numbers of 4 bytes are how many bytes?",
        "3 * 64 * 2**20 * 4 bytes, divided by chips.chip('v5e').hbm_bandwidth.",
    ),
    points=1,
)
