"""Matrix products with factors turned, batched, cancelling, and functions of a product that is nearly zero."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import normal, whole
from fairness.kernels import at_once


def turned(x, y):
    """x @ y with both factors stored the other way round, and the product of the two turned back in the kernel."""

    def kernel(xt_ref, yt_ref, o_ref):
        o_ref[...] = jax.lax.dot_general(
            yt_ref[...], xt_ref[...], (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32
        ).T

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), jnp.float32),
        grid=(x.shape[0] // 128,),
        in_specs=[pl.BlockSpec((x.shape[1], 128), lambda i: (0, i)), pl.BlockSpec(y.shape[::-1], lambda i: (0, 0))],
        out_specs=pl.BlockSpec((128, y.shape[1]), lambda i: (i, 0)),
    )(x.T, y.T)


def product(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32)


def batched(x, y):
    """Three products in one dot_general with a batch axis."""

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jax.lax.dot_general(
            x_ref[...], y_ref[...], (((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.float32
        )

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((*x.shape[:2], y.shape[1]), jnp.float32), grid=(1,))(
        x, y
    )


def products_with_transposes(x, y):
    return jnp.einsum("bmk,bnk->bmn", x, y, preferred_element_type=jnp.float32)


def gathered_by_one_hot(index, table):
    """table[index] as a product with zeros and ones: exact, for each sum has one term."""

    def kernel(index_ref, table_ref, o_ref):
        column = jax.lax.broadcasted_iota(jnp.int32, (index.size, table.shape[0]), 1)
        one_hot = (column == index_ref[...]).astype(table.dtype)
        o_ref[...] = jnp.dot(one_hot, table_ref[...], preferred_element_type=jnp.float32).astype(table.dtype)

    out = jax.ShapeDtypeStruct((index.size, table.shape[1]), table.dtype)
    return pl.pallas_call(kernel, out_shape=out)(index.reshape(-1, 1), table)


def in_halves(x, y):
    """The product as the sum of two: where they cancel, what is left is their rounding."""
    half = x.shape[1] // 2
    first = jnp.dot(x[:, :half], y[:half], preferred_element_type=jnp.float32)
    second = jnp.dot(x[:, half:], y[half:], preferred_element_type=jnp.float32)
    return second + first


def recurrent(xs, w):
    """A state that is carried from grid step to grid step, each time through a product and tanh."""

    def kernel(x_ref, w_ref, o_ref, state_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            state_ref[...] = jnp.zeros_like(state_ref)

        product = jnp.dot(state_ref[...], w_ref[...], precision=jax.lax.Precision.HIGHEST)
        state_ref[...] = jnp.tanh(product + x_ref[0])
        o_ref[0] = state_ref[...]

    spec = pl.BlockSpec((1, *xs.shape[1:]), lambda t: (t, 0, 0))
    return pl.pallas_call(
        kernel,
        out_shape=xs,
        grid=(xs.shape[0],),
        in_specs=[spec, pl.BlockSpec(w.shape, lambda t: (0, 0))],
        out_specs=spec,
        scratch_shapes=[pltpu.VMEM(xs.shape[1:], xs.dtype)],
    )(xs, w)


def recurrence(xs, w):
    def step(state, x):
        state = jnp.tanh(jnp.dot(state, w, precision=jax.lax.Precision.HIGHEST) + x)
        return state, state

    return jax.lax.scan(step, jnp.zeros_like(xs[0]), xs)[1]


# Columns k and 128 + k of x are alike, those rows of y opposite, but in another order: sums are zero up to rounding.
HALVES = normal((32, 128), jnp.bfloat16), normal((128, 128), jnp.bfloat16, seed=1)


CANCELLING = (
    jnp.concatenate([HALVES[0], HALVES[0][:, ::-1]], axis=1),
    jnp.concatenate([HALVES[1], -HALVES[1][::-1]], axis=0),
)


SHIFT = -1e-6  # a little less than zero is asked for, and a little more may come out

RIGHT = (
    Right(
        "both factors and the product turned",
        turned,
        product,
        (normal((256, 128), jnp.bfloat16), normal((128, 128), jnp.bfloat16, seed=1)),
    ),
    Right(
        "a batch axis in dot_general",
        batched,
        products_with_transposes,
        (normal((3, 16, 128), jnp.bfloat16), normal((3, 128, 128), jnp.bfloat16, seed=1)),
    ),
    Right(
        "a look-up as a product with a one-hot",
        gathered_by_one_hot,
        lambda i, t: t[i],
        (whole((32,), 0, 64), normal((64, 128), jnp.bfloat16)),
    ),
    Right(
        "relu of sums a little below zero",
        at_once(lambda x, y: jnp.maximum(in_halves(x, y) + SHIFT, 0)),
        lambda x, y: jax.nn.relu(product(x, y) + SHIFT),
        CANCELLING,
    ),
    Right(
        "leaky relu of sums a little below zero",
        at_once(lambda x, y: jax.nn.leaky_relu(in_halves(x, y) + SHIFT)),
        lambda x, y: jax.nn.leaky_relu(product(x, y) + SHIFT),
        CANCELLING,
    ),
    Right("a recurrence over the grid", recurrent, recurrence, (normal((6, 8, 128)), normal((128, 128), seed=1) / 11)),
)
