"""What a wrong element takes in and should not, or leaves out and should take."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from course_lib import judges

X = jnp.asarray(np.random.default_rng(0).normal(size=(8, 128)), jnp.float32)


def in_one_step(body):
    """``body`` of the whole of x, as a kernel without a grid."""

    def kernel(x_ref, o_ref):
        o_ref[...] = body(x_ref[...])

    return lambda x: pl.pallas_call(kernel, out_shape=x)(x)


def sums_of_three(x):
    """Of every column itself and the two after it; nothing beyond the end."""
    return x + jnp.pad(x[:, 1:], ((0, 0), (0, 1))) + jnp.pad(x[:, 2:], ((0, 0), (0, 2)))


def sums_of_two(x):
    return x + jnp.pad(x[:, 1:], ((0, 0), (0, 1)))


def half_a_relu(x):
    return jnp.where(x > 0, 0.9 * x, 0)


@pytest.mark.parametrize(
    "mine, asked, says",
    [
        (sums_of_two, sums_of_three, "The output at [0, 0] should depend on x[:, 2], but does not."),
        (sums_of_three, sums_of_two, "The output at [0, 0] depends on x[:, 2], but should not."),
    ],
)
def test_a_term_too_many_or_too_few_is_named(mine, asked, says):
    said = judges.numbers_judge(in_one_step(mine), asked, X)
    assert said.passed is False and says in said.message


@pytest.mark.parametrize(
    "mine, takes_in",
    [
        (lambda x: jnp.maximum(2 * x, -3.0), "A maximum in the kernel takes in -3:"),
        (lambda x: jnp.minimum(2 * x, -999.0), "A minimum in the kernel takes in -999:"),
        (lambda x: 0 * x - 3.0, None),
        (lambda x: jnp.maximum(0 * x - 1.5, 0 * x - 1.5) - 1.5, None),  # -3 is not in the code
    ],
)
def test_a_number_that_a_maximum_takes_in_is_named(mine, takes_in):
    x = -4.0 - jnp.arange(8 * 128.0, dtype=jnp.float32).reshape(8, 128) % 77
    said = judges.numbers_judge(in_one_step(mine), lambda x: 2 * x, x)
    assert said.passed is False
    assert takes_in in said.message if takes_in else "takes in" not in said.message


def test_large_numbers_overflow_in_no_trial():
    x = jnp.full((8, 128), 2e37).at[1].set(-2e37)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = judges.numbers_judge(in_one_step(sums_of_two), sums_of_three, x)
    assert said.passed is False


def test_a_choice_that_drops_nan_is_not_blamed():
    """NaN comes through jnp.maximum and not through jnp.where: both depend on x all the same."""
    said = judges.numbers_judge(
        in_one_step(lambda x: half_a_relu(x) + 0.1 * x.max(0)), lambda x: jnp.maximum(x, 0.0) + 0.2 * x.max(0), X
    )
    assert said.passed is False and "depend" not in said.message
