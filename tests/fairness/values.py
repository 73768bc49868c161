"""Numbers that look wrong and are right: inf, NaN, minus zero, ties, the ends of a range; and dtypes of every kind."""

import jax
import jax.numpy as jnp
import numpy as np

from fairness import Right
from fairness.inputs import counted, normal, whole
from fairness.kernels import at_once


def log_of_absolute(x):
    return jnp.log(jnp.abs(x))


def log_in_halves(x):
    """log |x| as twice log sqrt |x|: -inf at zero, like the reference."""
    return 2 * jnp.log(jnp.sqrt(jnp.abs(x)))


def quotient(x, y):
    return x / y


def quotient_by_reciprocal(x, y):
    return x * (1 / y)


def above(x, y):
    return x > y


def not_below(x, y):
    return jnp.logical_not((x < y) | (x == y))


def argmax_by_min(x):
    """The first column that holds the largest value, as the smallest of their numbers."""
    column = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
    here = x == jnp.max(x, axis=1, keepdims=True)
    return jnp.min(jnp.where(here, column, x.shape[1]), axis=1, keepdims=True)


def argmax(x):
    return jnp.argmax(x, axis=1, keepdims=True).astype(jnp.int32)


def average_of_integers(x, y):
    """Without the sum, which would not fit."""
    return (x & y) + ((x ^ y) >> 1)


def average(x, y):
    return y + ((x - y) >> 1)


def chosen(mask, x, y):
    return jnp.where(mask, x, y)


def chosen_by_select(mask, x, y):
    return jax.lax.select(mask, x, y)


def quantised(x):
    return jnp.round(x * 16).astype(jnp.int32)


def quantised_by_floor(x):
    """Round half to even, spelled out. Multiplying by 16 is exact, so nothing hangs on a rounding."""
    low = jnp.floor(x * 16)
    apart = x * 16 - low
    odd = low - 2 * jnp.floor(low * 0.5)
    return (low + jnp.where((apart > 0.5) | ((apart == 0.5) & (odd == 1)), 1.0, 0.0)).astype(jnp.int32)


def overflowing(x):
    return jnp.exp(x)


def overflowing_by_squares(x):
    half = jnp.exp(0.5 * x)
    return half * half


SPECIAL = jnp.array([0.0, -0.0, 1.0, -1.0, jnp.inf, -jnp.inf, jnp.nan, 2.0])


DIVIDENDS, DIVISORS = jnp.tile(SPECIAL, (8, 16)), jnp.repeat(jnp.tile(SPECIAL, (8, 2)), 8, axis=1)


TIES = whole((16, 128), 0, 5).astype(jnp.float32)


def hashed(x):
    return (x * jnp.uint32(2654435761)) >> 16


def hashed_by_division(x):
    return (x * jnp.uint32(2654435761)) // jnp.uint32(65536)


def two_largest(x):
    return jax.lax.top_k(x, 2)[0]


def two_largest_by_max(x):
    """The largest, and the largest of what is left without its first place."""
    column = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
    largest = jnp.max(x, axis=1, keepdims=True)
    first = jnp.min(jnp.where(x == largest, column, x.shape[1]), axis=1, keepdims=True)
    second = jnp.max(jnp.where(column == first, -jnp.inf, x), axis=1, keepdims=True)
    return jnp.concatenate([largest, second], axis=1)


def not_below_product(x, y, z):
    """Where z is x * y, rounded once, it is for the machine to say on which side the difference lies."""
    return x * y - z >= 0


FACTORS = normal((16, 128)), normal((16, 128), seed=1)
PRODUCT = jnp.asarray(np.asarray(FACTORS[0]) * np.asarray(FACTORS[1]))

RIGHT = (
    Right(
        "the logarithm of zero",
        at_once(log_in_halves),
        log_of_absolute,
        (whole((8, 128), 4, 99).astype(jnp.float32).at[:, ::3].set(0),),
    ),
    Right("0/0, 1/0 and inf/inf", at_once(quotient_by_reciprocal), quotient, (DIVIDENDS, DIVISORS)),
    Right(
        "exp that overflows and vanishes",
        at_once(overflowing_by_squares),
        overflowing,
        (jnp.linspace(-120, 120, 1024).reshape(8, 128),),
    ),
    Right("a bool output", at_once(not_below), above, (TIES, TIES[::-1])),
    Right("a bool at an exact tie", at_once(not_below_product), not_below_product, (*FACTORS, PRODUCT)),
    Right(
        "bool in, bf16 out",
        at_once(chosen_by_select),
        chosen,
        (normal((16, 128)) > 0, normal((16, 128), jnp.bfloat16, 1), normal((16, 128), jnp.bfloat16, 2)),
    ),
    Right("argmax with ties", at_once(argmax_by_min), argmax, (TIES,)),
    Right(
        "integers near the end of their range",
        at_once(average_of_integers),
        average,
        (whole((8, 128), 2**30, 2**31 - 1), whole((8, 128), 2**30, 2**31 - 1, seed=1)),
    ),
    Right(
        "rounding to integers, halves too",
        at_once(quantised_by_floor),
        quantised,
        ((counted((8, 128)) - 512) / 32,),
    ),
    Right("uint32 that wraps round", at_once(hashed_by_division), hashed, (counted((8, 128), jnp.uint32) * 4000037,)),
    Right(
        "fp8 in, f32 out",
        at_once(lambda x: x.astype(jnp.float32) + x.astype(jnp.float32)),
        lambda x: 2 * x.astype(jnp.float32),
        (normal((32, 128), jnp.float8_e4m3fn),),
    ),
    Right("the two largest, with ties", at_once(two_largest_by_max), two_largest, (TIES,)),
)
