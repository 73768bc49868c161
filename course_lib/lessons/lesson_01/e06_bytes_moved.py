"""The number of bytes that move when two vectors are added."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib import cost, grid
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict


def _bytes_moved() -> int:
    """Return the bytes that adding two float32 vectors of 6144 moves between HBM and VMEM, from the grid steps."""

    def add_kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] + y_ref[...]

    vector = jax.ShapeDtypeStruct((6144,), jnp.float32)
    return cost.hbm_bytes(grid.walk(pl.pallas_call(add_kernel, out_shape=vector), vector, vector))


EXERCISE = Exercise(
    id="01.6",
    title="Predict: how many bytes move?",
    kind="predict",
    defines="moved",
    asks=Predict(
        value=73_728,
        unit="bytes",
        near={
            49_152: "That counts x and y, which go in. The sum has to come out as well.",
            24_576: "That counts one vector, but three of them move.",
            18_432: "That is how many elements move. How many bytes does one float32 have?",
            36_864: "That would be right for elements of two bytes, such as bfloat16, but these are float32.",
        },
        why="two vectors go in and one comes out, each with 6144 elements of 4 bytes.",
        proof=_bytes_moved,
    ),
    hints=(
        "The kernel runs once. What has to be in VMEM before it runs, and what has to be in HBM afterwards?",
        "Two vectors go in and one comes out. How many bytes does a float32 vector of 6144 elements have?",
        "A float32 has 4 bytes, so multiply 6144 by three and by 4.",
    ),
    points=1,
)
