"""Softmax and its relatives: through logarithms, with powers of two, online, masked with -inf."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import normal, whole
from fairness.kernels import at_once, by_rows


def softmax(x):
    return jax.nn.softmax(x, axis=-1)


def softmax_by_logsumexp(x):
    largest = jnp.max(x, axis=-1, keepdims=True)
    return jnp.exp(x - (largest + jnp.log(jnp.sum(jnp.exp(x - largest), axis=-1, keepdims=True))))


def softmax_of_base_two(x):
    powers = jnp.exp2((x - jnp.max(x, axis=-1, keepdims=True)) * 1.4426950408889634)
    return powers * (1 / jnp.sum(powers, axis=-1, keepdims=True))


def online_softmax(x):
    """Two passes over the blocks of a row: a running maximum with a rescaled sum, then the quotients."""

    def kernel(x_ref, o_ref, top_ref, sum_ref):
        second, k = pl.program_id(1), pl.program_id(2)

        @pl.when((second == 0) & (k == 0))
        def start():
            top_ref[...] = jnp.full_like(top_ref, -jnp.inf)
            sum_ref[...] = jnp.zeros_like(sum_ref)

        @pl.when(second == 0)
        def gather():
            top = jnp.maximum(top_ref[...], jnp.max(x_ref[...], axis=1, keepdims=True))
            sum_ref[...] *= jnp.exp(top_ref[...] - top)
            sum_ref[...] += jnp.sum(jnp.exp(x_ref[...] - top), axis=1, keepdims=True)
            top_ref[...] = top

        @pl.when(second == 1)
        def divide():
            o_ref[...] = jnp.exp(x_ref[...] - top_ref[...]) / sum_ref[...]

    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(x.shape[0] // 8, 2, x.shape[1] // 128),
        in_specs=[pl.BlockSpec((8, 128), lambda i, second, k: (i, k))],
        out_specs=pl.BlockSpec((8, 128), lambda i, second, k: (i, second * k)),
        scratch_shapes=[pltpu.VMEM((8, 1), jnp.float32)] * 2,
    )(x)


def masked(x):
    return jax.nn.softmax(jnp.where(staircase(x), x, -jnp.inf), axis=-1)


def masked_without_infinity(x):
    """Zeros are put in after exp; the quotient is a multiplication."""
    largest = jnp.max(jnp.where(staircase(x), x, -3e38), axis=-1, keepdims=True)
    powers = jnp.where(staircase(x), jnp.exp(x - largest), 0)
    return powers * (1 / jnp.sum(powers, axis=-1, keepdims=True))


def staircase(x):
    row = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
    return jax.lax.broadcasted_iota(jnp.int32, x.shape, 1) <= 8 * row


def above_zero_only(x):
    """Rows with nothing above zero are NaN: 0 / 0, and that is what is asked for."""
    return jax.nn.softmax(jnp.where(x > 0, x, -jnp.inf), axis=-1)


def above_zero_only_by_hand(x):
    kept = jnp.where(x > 0, x, -jnp.inf)
    powers = jnp.exp(kept - jnp.max(kept, axis=-1, keepdims=True))
    return powers / jnp.sum(powers, axis=-1, keepdims=True)


def cross_entropy(x, target):
    return -jnp.take_along_axis(jax.nn.log_softmax(x, axis=-1), target, axis=1)


def cross_entropy_by_one_hot(x, target):
    """The logarithm of the sum, less the target's own number, which is found by comparing columns."""
    largest = jnp.max(x, axis=-1, keepdims=True)
    of_sum = largest + jnp.log(jnp.sum(jnp.exp(x - largest), axis=-1, keepdims=True))
    column = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
    return of_sum - jnp.sum(jnp.where(column == target, x, 0), axis=-1, keepdims=True)


X = normal((32, 512)) * 4
TARGET = whole((32, 1), 0, 512)

RIGHT = (
    Right("softmax through the logarithm of the sum", by_rows(softmax_by_logsumexp), softmax, (X,)),
    Right("softmax with powers of two", by_rows(softmax_of_base_two), softmax, (X,)),
    Right("online softmax over three grid axes", online_softmax, softmax, (X,)),
    Right("masked, without infinity", at_once(masked_without_infinity), masked, (X,)),
    Right("rows that are NaN, as asked", at_once(above_zero_only_by_hand), above_zero_only, (X.at[::4].set(-1.0),)),
    Right("cross entropy without a look-up", at_once(cross_entropy_by_one_hot), cross_entropy, (X, TARGET)),
)
