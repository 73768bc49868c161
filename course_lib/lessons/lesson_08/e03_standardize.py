"""Rows minus their mean, divided by their standard deviation: two sums, each with a mask."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments


def _standardized(x):
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=1, keepdims=True)
    return (centred / jnp.sqrt(variance + 1e-5)).astype(x.dtype)


def _padded(x):
    return -(-x.shape[1] // 128) * 128


def _tail_in_the_variance(x):
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, axis=1, keepdims=True)
    tail = (_padded(x) - x.shape[1]) * mean * mean
    variance = (jnp.sum((wide - mean) ** 2, axis=1, keepdims=True) + tail) / x.shape[1]
    return ((wide - mean) / jnp.sqrt(variance + 1e-5)).astype(x.dtype)


def _counts_the_block(x):
    """Return the result with zeros in the tail, and means over the block's width."""
    wide = jnp.pad(x.astype(jnp.float32), ((0, 0), (0, _padded(x) - x.shape[1])))
    return _standardized(wide)[:, : x.shape[1]].astype(x.dtype)


def _divides_by_the_block(x):
    """Return the result with correct sums, but both divided by the block's width."""
    wide, width = x.astype(jnp.float32), _padded(x)
    centred = wide - jnp.sum(wide, axis=1, keepdims=True) / width
    variance = jnp.sum(centred * centred, axis=1, keepdims=True) / width
    return (centred / jnp.sqrt(variance + 1e-5)).astype(x.dtype)


def _divides_by_one_less(x):
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=1, keepdims=True)
    variance = jnp.sum(centred * centred, axis=1, keepdims=True) / (x.shape[1] - 1)
    return (centred / jnp.sqrt(variance + 1e-5)).astype(x.dtype)


def _over_the_variance(x):
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=1, keepdims=True)
    return (centred / (jnp.mean(centred * centred, axis=1, keepdims=True) + 1e-5)).astype(x.dtype)


def _scaled(x, factor):
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=1, keepdims=True)
    return (centred * factor(jnp.mean(centred * centred, axis=1, keepdims=True))).astype(x.dtype)


def _rows() -> list[tuple]:
    """Return rows with a nonzero mean, so that subtracting it from the tail shows; and some whose variance is small."""
    sizes = ({"M": 32, "N": 256}, {"M": 20, "N": 300}, {"M": 5, "N": 70})
    *cases, (last,) = arguments(("x: bf16[M,N]",), sizes, (), (1, 3))
    return [*cases, (last.at[0].set(2).at[1].set((last[1] - 2) / 256),)]


EXERCISE = Exercise(
    id="08.3",
    title="Standardized rows",
    kind="write",
    defines="standardize_kernel",
    judged="standardize",
    cases=_rows,
    reference=_standardized,
    slips=(
        judges.Slip(
            means="the tail is in the variance, because its zeros are no longer zeros once the mean is subtracted",
            value=_tail_in_the_variance,
            next="mask the squares too, before they are added up.",
        ),
        judges.Slip(
            means="the tail counts, because the sums are divided by the width of the block",
            value=_counts_the_block,
            next="jnp.mean divides by the number of all elements in the block. Use a sum, and divide by columns.",
        ),
        judges.Slip(
            means="the tail counts, because the sums are divided by the width of the block",
            value=_divides_by_the_block,
            next="divide by columns, the length of a row.",
        ),
        judges.Slip(
            means="the sum of the squares is divided by columns - 1",
            value=_divides_by_one_less,
            next="divide by columns, because this is the mean of the squares and not an estimate from a sample.",
        ),
        judges.Slip(
            means="the rows are divided by the variance",
            value=_over_the_variance,
            next="divide by its square root: jax.lax.rsqrt is one over the square root.",
        ),
        judges.Slip(
            means="1e-5 is missing under the square root, so a row of equal values becomes 0 / 0",
            value=lambda x: _scaled(x, lambda v: 1 / jnp.sqrt(v)),
            next="add it to the variance, before the square root.",
        ),
        judges.Slip(
            means="1e-5 is added to the square root, and not to the variance under it",
            value=lambda x: _scaled(x, lambda v: 1 / (jnp.sqrt(v) + 1e-5)),
            next="add it to the variance, before the square root. Where the variance is small, the two differ.",
        ),
    ),
    hints=(
        "Two sums mix elements, that of x and that of the squares, and 0 is neutral for both. What has become of the "
        "zeros in the tail when the second sum begins?",
        "After x - mean, the tail holds -mean, so mask the squares again. And jnp.mean divides by the width of the "
        "whole block, so use a sum and divide by columns.",
        "own = iota < columns; x = where(own, x_ref[...].astype(jnp.float32), 0); centred = x - sum(x) / columns; "
        "variance = sum(where(own, centred * centred, 0)) / columns. The result is centred * rsqrt(variance + 1e-5), "
        "cast with .astype(o_ref.dtype).",
    ),
    points=3,
)
