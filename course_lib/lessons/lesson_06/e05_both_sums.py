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
            next="use jnp.sum instead of jnp.mean.",
        ),
    ),
    also=(
        core.at_most(
            lambda: MOST,
            "For x[256, 1024] the core takes {mine} cycles, predicted (compiler), not counting waits for copies. It "
            "may take at most {most}.",
            "reduce the 256 registers of x as far as you can by adding registers to registers, so that only a few are "
            "left for the XLU.",
            BLOCK,
        ),
    ),
    also_at=lambda: [(at_random(BLOCK, 0),)],
    hints=(
        "There are two outputs, so out_shape is a tuple of two shapes, and the kernel gets two refs after x_ref.",
        "With keepdims, the sums of the rows are a column with one value per row. In HBM a column takes 128 times the "
        "bytes of its values, so write it as a row, or as a vector with one axis.",
        "jnp.sum(v, axis=1, keepdims=True).T is a row of shape (1, M), and an output of shape (M,) takes jnp.sum(v, "
        "axis=1) as it is.",
    ),
    points=2,
)
