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
                means="ds is made of y, and the slope of z by s is x: another residual is read",
                value=lambda x, s, b, g: (_dz(x, s, b, g) * _scaled(x, s, b)).sum(axis=0),
                next="multiply dz by x.",
                output="ds",
            ),
            judges.Slip(
                means="ds is made of y / s, which is x + b / s, and not x",
                value=lambda x, s, b, g: (_dz(x, s, b, g) * _scaled(x, s, b) / s).sum(axis=0),
                next="x is among the residuals: multiply dz by it.",
                output="ds",
            ),
            judges.Slip(
                means="relu's slope is taken from x, and it is that of z = x s + b",
                value=lambda x, s, b, g: jnp.where(x > 0, g, 0) * s,
                next="y tells it: z > 0 where y > 0.",
                output="dx",
            ),
            judges.Slip(
                means="db sums g, without relu's slope",
                value=lambda x, s, b, g: g.sum(axis=0),
                next="sum dz, as ds does.",
                output="db",
            ),
        ),
    ),
    hints=(
        "Ask the rule of the lesson: over which axis of the grid are ds and db sums, and is it the last?",
        "dz is g where y > 0. z = x s + b: its slope by x is s, by s it is x, by b it is 1.",
        "The grid is (columns, rows): maps lambda j, i. Zero at program_id(1) == 0. ds adds dz * x, db adds dz.",
    ),
    points=2,
)
