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
            654.7: "That counts x and y, which go in, but the sum has to come out as well.",
            327.4: "That is the time of one vector, but three of them move.",
            491.0: "That would be right for elements of two bytes, such as bfloat16. These are float32.",
            245.5: "That takes one byte for each element. How many bytes does a float32 have?",
            936.6: MI_IS_NOT_M,
            0.3407: "That is the time of the additions, at the peak of the MXU. Are they what takes longest?",
            10.9: "That is the time of the additions, on the VPU. Are they what takes longest?",
            1091: "That is not the least time, because you used the share of the bandwidth that programs reach.",
            1103.5: "That is not the least time, because you used the share of the bandwidth that programs reach.",
        },
        why="three vectors of 256 MiB move at 820 GB/s.",
        proof=_add_microseconds,
    ),
    hints=(
        "Peak and bandwidth give two times, of which the larger one counts. Which one is that for an addition?",
        "Two vectors go in and one comes out. How many bytes do 64 Mi elements of 4 bytes take?",
        "Divide 3 * 64 * 2**20 * 4 bytes by chips.chip('v5e').hbm_bandwidth.",
    ),
    points=1,
)
