"""A gradient to repair: its slope, its residual and its order of steps are wrong."""

import jax
import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments


def _before_relu(x, s, b):
    return x * s + b


def _scaled(x, s, b):
    return jax.nn.relu(_before_relu(x, s, b))


def _dz(x, s, b, g):
    return jnp.where(_before_relu(x, s, b) > 0, g, 0)


def _cases() -> list[tuple]:
    """Return arrays of three blocks along each axis, with random values."""
    return arguments(("x: f32[M,N]", "s: f32[N]", "b: f32[N]"), ({"M": 192, "N": 384},), within=(-1, 1))[1::2]


EXERCISE = Exercise(
    id="10.7",
    title="Repair: scale, shift, relu",
    kind="repair",
    defines="scaled_back",
    judged="scaled",
    cases=_cases,
    reference=_scaled,
    gradient=judges.Gradient(
        of=("x", "s", "b"),
        pre=_before_relu,
        activation=jax.nn.relu,
        slips=(
            judges.Slip(
                means="ds is computed from y, but the slope of z with respect to s is x, so it needs another residual",
                value=lambda x, s, b, g: (_dz(x, s, b, g) * _scaled(x, s, b)).sum(axis=0),
                next="multiply dz by x.",
                output="ds",
            ),
            judges.Slip(
                means="ds is computed from y / s, which is x + b / s, and not x",
                value=lambda x, s, b, g: (_dz(x, s, b, g) * _scaled(x, s, b) / s).sum(axis=0),
                next="x is among the residuals: multiply dz by it.",
                output="ds",
            ),
            judges.Slip(
                means="relu's slope is taken from x, but it is that of z = x s + b",
                value=lambda x, s, b, g: jnp.where(x > 0, g, 0) * s,
                next="take it from y, because z > 0 where y > 0.",
                output="dx",
            ),
            judges.Slip(
                means="db sums g without relu's slope",
                value=lambda x, s, b, g: g.sum(axis=0),
                next="sum dz instead of g.",
                output="db",
            ),
        ),
    ),
    hints=(
        "Ask as in the lesson: over which axis of the grid are ds and db sums, and is it the last axis?",
        "dz is g where y > 0. The slope of z = x s + b with respect to x is s, with respect to s it is x, and "
        "with respect to b it is 1.",
        "The grid is (columns, rows), so the maps are lambda j, i. Set ds and db to zero at program_id(1) == 0. "
        "Add dz * x to ds, and dz to db.",
    ),
    points=2,
)
