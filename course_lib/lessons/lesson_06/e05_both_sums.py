"""The sums of the rows and of the columns of one block, within two budgets."""

import jax
import jax.numpy as jnp

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import at_random
from course_lib.judges import Slip
from course_lib.lessons.lesson_06 import core

BLOCK = jax.ShapeDtypeStruct((256, 1024), jnp.float32)
MOST = 500  # cycles of the core


def _both(x):
    return jnp.sum(x, axis=1), jnp.sum(x, axis=0)


def _each_once(x) -> int:
    rows, columns = (jax.ShapeDtypeStruct((1, n), x.dtype) for n in x.shape)
    return cost.stored_bytes(x, rows, columns)


EXERCISE = Exercise(
    id="06.5",
    title="Rows and columns",
    kind="write",
    defines="both_sums",
    inputs=("x: f32[M,N]",),
    sizes=({"M": 64, "N": 256}, {"M": 20, "N": 300}, {"M": 5, "N": 130}),
    reference=_both,
    budget=judges.Budget(hbm_bytes=_each_once),
    slips=(
        Slip(
            output=0,
            means="these are the means of the rows",
            value=lambda x: jnp.mean(x, axis=1),
            next="jnp.sum, in place of jnp.mean.",
        ),
    ),
    also=(
        core.at_most(
            lambda: MOST,
            "For x[256, 1024] the core is at it for {mine} cycles beside waiting for copies, predicted (compiler). "
            "Asked is {most} at most.",
            "x has 256 registers. What is done to all of them should be done where registers are added to registers; "
            "the XLU should get few.",
            BLOCK,
        ),
    ),
    also_at=lambda: [(at_random(BLOCK, 0),)],
    hints=(
        "Two outputs: out_shape is a tuple of two shapes, and the kernel gets two Refs after x_ref.",
        "With keepdims the sums of the rows come as a column, one number a row. A column in HBM is 128 times its "
        "numbers. Hand it over as a row, or as a vector of one axis.",
        "jnp.sum(v, axis=1, keepdims=True).T is a row of shape (1, M), and an output of shape (M,) takes jnp.sum(v, "
        "axis=1) as it is.",
    ),
    points=2,
)
