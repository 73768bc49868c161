"""Slips in one operation of the reference, and patterns that only regular arguments show."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from sweeps import daily

from course_lib import judges


def rms(x, weight):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6) * weight


def said_of(body, reference, *args):
    """Return what the numbers judge says of a kernel with one block of each argument."""

    def fn(*args):
        def kernel(*refs):
            refs[-1][...] = body(*(ref[...] for ref in refs[:-1]))

        shape = jax.eval_shape(reference, *args)
        return pl.pallas_call(kernel, out_shape=shape)(*args)

    verdict = judges.numbers_judge(fn, reference, *args)
    return "" if verdict.passed else " ".join(str(verdict).split())


X = jnp.arange(32 * 128, dtype=jnp.float32).reshape(32, 128) / 100 + 1
W = jnp.linspace(1, 3, 128, dtype=jnp.float32).reshape(1, 128)


ANOTHER = {
    "the factor weight is left out": lambda x, w: rms(x, 1.0),
    "the factor weight is used twice": lambda x, w: rms(x, w * w),
    "divided by weight, and should be multiplied": lambda x, w: rms(x, 1 / w),
    "is not divided by the number of its terms": lambda x, w: (
        x * jax.lax.rsqrt(jnp.sum(x * x, 1, keepdims=True) + 1e-6) * w
    ),
    "taken along axis 0, and should": lambda x, w: x * jax.lax.rsqrt(jnp.mean(x * x, 0, keepdims=True) + 1e-6) * w,
    "taken over all axes, and should": lambda x, w: x * jax.lax.rsqrt(jnp.mean(x * x) + 1e-6) * w,
    "this is the variance of x": lambda x, w: x * jax.lax.rsqrt(jnp.var(x, 1, keepdims=True) + 1e-6) * w,
    "the mean of x is subtracted first": lambda x, w: rms(x - jnp.mean(x, 1, keepdims=True), w),
}
# Every day one of a factor, of a divisor, of axes, and of what is put in another's place.
DAILY = (
    "divided by weight, and should be multiplied",
    "is not divided by the number of its terms",
    "taken over all axes, and should",
    "this is the variance of x",
)


@pytest.mark.parametrize("says", daily(*DAILY, of=ANOTHER))
def test_an_operation_that_is_another(says):
    assert says in said_of(ANOTHER[says], rms, X, W)


def test_nothing_is_said_of_a_right_kernel_or_of_another_slip():
    assert said_of(rms, rms, X, W) == ""
    assert "known slip" not in said_of(lambda x, w: rms(x, w) + 0.1 * jnp.cos(x), rms, X, W)


def test_what_regular_arguments_show_by_chance_is_not_said():
    """In X the first column is each row's mean less a constant; in shuffled arguments it is not."""

    def centred(x):
        return x - jnp.mean(x, axis=1, keepdims=True)

    said = said_of(lambda x: x - x[:, :1], centred, X)
    assert "too large by" not in said and "should depend on x[:, 1:128]" in said


def test_integers_show_a_wrong_index_map():
    q = (jnp.arange(128 * 256) % 101).astype(jnp.int8).reshape(128, 256)

    def fn(q):
        def kernel(q_ref, o_ref):
            o_ref[...] = q_ref[...].astype(jnp.float32) * 2

        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(q.shape, jnp.float32),
            grid=(2,),
            in_specs=[pl.BlockSpec((128, 128), lambda i: (0, 0))],
            out_specs=pl.BlockSpec((128, 128), lambda i: (0, i)),
        )(q)

    said = str(judges.numbers_judge(fn, lambda q: q.astype(jnp.float32) * 2, q))
    assert "q_ref holds block (0, 0)" in said and "needs block (0, 1)" in " ".join(said.split())


def test_a_block_in_another_place():
    def fn(x):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] + 1

        return pl.pallas_call(
            kernel,
            out_shape=x,
            grid=(2, 2),
            in_specs=[pl.BlockSpec((16, 128), lambda i, j: (j, i))],
            out_specs=pl.BlockSpec((16, 128), lambda i, j: (i, j)),
        )(x)

    x = jax.random.normal(jax.random.key(0), (32, 256))
    assert "x_ref holds block (1, 0)" in " ".join(str(judges.numbers_judge(fn, lambda x: x + 1, x)).split())


def norm(s):
    return s / jnp.sqrt(jnp.mean(s * s, keepdims=True))


@pytest.mark.parametrize(
    "of, total, difference, says",
    [
        (norm, lambda x, y: x + x, lambda x, y: x - x, "x is read where y should be"),  # for both outputs
        (jnp.sin, lambda x, y: x + x, lambda x, y: x - y, "x is read where y should be"),  # at one of two places
        (norm, lambda x, y: x, lambda x, y: x - y, "the term y is left out"),  # a norm of x is one of x + x
    ],
)
def test_a_slip_of_arguments_is_weighed_against_the_other_output(of, total, difference, says):
    def fn(x, y):
        def kernel(x_ref, y_ref, o_ref, d_ref):
            o_ref[...] = of(total(x_ref[...], y_ref[...]))
            d_ref[...] = difference(x_ref[...], y_ref[...])

        return pl.pallas_call(kernel, out_shape=[jax.ShapeDtypeStruct(x.shape, x.dtype)] * 2)(x, y)

    x, y = (jax.random.normal(jax.random.key(n), (8, 128)) for n in range(2))
    said = judges.numbers_judge(fn, lambda x, y: (of(x + y), x - y), x, y)
    assert said.passed is False and says in said.message, str(said)
