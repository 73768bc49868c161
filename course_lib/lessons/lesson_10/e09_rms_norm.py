"""A whole kernel with its gradient, from an empty cell: the root-mean-square norm."""

import jax.numpy as jnp
from jax import lax

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, with_still_rows


def _factor(x, added=1e-6):
    return lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + added)


def _norm(x, s):
    return x * _factor(x) * s


def _gradients(x, s, g):
    """Return (dx, ds), written as the exercise has them."""
    r, h = _factor(x), g * s
    return r * h - x * (r * r * r) * jnp.mean(h * x, axis=1, keepdims=True), jnp.sum(g * x * r, axis=0)


def _cases() -> list[tuple]:
    """Return a ragged batch and one of a single block, with random values; and a row of zeros among them."""
    sizes = ({"M": 150, "N": 256}, {"M": 8, "N": 128})
    ragged, (x, s) = arguments(("x: f32[M,N]", "s: f32[N]"), sizes, within=(-2, 2))[1::2]
    return [ragged, (with_still_rows(x), s)]


EXERCISE = Exercise(
    id="10.9",
    title="From an empty cell: a norm and its gradient",
    kind="write",
    defines="rms_norm",
    cases=_cases,
    reference=_norm,
    slips=(
        judges.Slip(
            means="1e-6 is missing below the root, so a row of zeros becomes 0 / 0",
            value=lambda x, s: x * _factor(x, 0.0) * s,
            next="add it to the mean of the squares, before you take the root.",
        ),
    ),
    gradient=judges.Gradient(
        of=("x", "s"),
        zeros=False,
        reference=_gradients,
        slips=(
            judges.Slip(
                means="the factor r is taken for a constant, but it depends on x and has a slope of its own",
                value=lambda x, s, g: _factor(x) * g * s,
                next="add the second term, - x r^3 times the mean of h x.",
                output="dx",
            ),
            judges.Slip(
                means="1e-6 is missing below the root in the backward pass, so a row of zeros becomes inf * 0",
                value=lambda x, s, g: (
                    _factor(x, 0.0) * g * s - x * _factor(x, 0.0) ** 3 * jnp.mean(g * s * x, axis=1, keepdims=True)
                ),
                next="add it there too, because the factor is the same as in the forward pass.",
                output="dx",
            ),
            judges.Slip(
                means="the second term is summed over the row, but not divided by N",
                value=lambda x, s, g: (
                    _factor(x) * g * s - x * _factor(x) ** 3 * jnp.sum(g * s * x, axis=1, keepdims=True)
                ),
                next="take the mean of h x over the row.",
                output="dx",
            ),
            judges.Slip(
                means="ds is computed from x as it came, and not from the normalized x",
                value=lambda x, s, g: (g * x).sum(axis=0),
                next="multiply by r before you sum over the rows.",
                output="ds",
            ),
        ),
    ),
    hints=(
        "In both passes, use blocks of rows with all columns. dx needs nothing from other rows, while ds is a "
        "sum over all rows.",
        "Keep x and s only, because the backward pass reads x anyway and can recompute r from it.",
        "For ds, use one block (1, N) that stays in VMEM, and set it to zero at step 0. Mask the ragged rows of "
        "the last block with jnp.where, both in x and in g.",
    ),
    points=4,
)
