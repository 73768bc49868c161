"""Sums of thousands of numbers, in every order: lane by lane, row by row, as a product."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import counted, normal, whole


def row_sums(x, block=512):
    """Partial sums in 128 lanes; the lanes are added up once, at the end."""

    def kernel(x_ref, o_ref, lanes_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            lanes_ref[...] = jnp.zeros_like(lanes_ref)

        for lane in range(0, block, 128):
            lanes_ref[...] += x_ref[:, lane : lane + 128].astype(lanes_ref.dtype)

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def finish():
            o_ref[...] = jnp.sum(lanes_ref[...], axis=1, keepdims=True).astype(o_ref.dtype)

    rows = x.shape[0]
    wide = jnp.float32 if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int32
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, 1), x.dtype),
        grid=(x.shape[1] // block,),
        in_specs=[pl.BlockSpec((rows, block), lambda k: (0, k))],
        out_specs=pl.BlockSpec((rows, 1), lambda k: (0, 0)),
        scratch_shapes=[pltpu.VMEM((rows, 128), wide)],
    )(x)


def sum_of_rows(x):
    return jnp.sum(x, axis=1, keepdims=True)


def one_row_after_the_other(x):
    """Column sums in the plainest order: a thousand additions and more, each on the sum of all before."""

    def kernel(x_ref, o_ref):
        def add(n, total):
            return total + x_ref[pl.ds(n, 1), :]

        o_ref[...] = jax.lax.fori_loop(0, x.shape[0], add, jnp.zeros((1, 128), x.dtype))

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((1, 128), x.dtype))(x)


def column_sums(x):
    return jnp.sum(x, axis=0, keepdims=True)


def sums_so_far_by_a_triangle(x):
    def kernel(x_ref, o_ref):
        row = jax.lax.broadcasted_iota(jnp.int32, (512, 512), 0)
        column = jax.lax.broadcasted_iota(jnp.int32, (512, 512), 1)
        triangle = (row <= column).astype(jnp.float32)
        o_ref[...] = jnp.dot(x_ref[...], triangle, precision=jax.lax.Precision.HIGHEST)

    return pl.pallas_call(kernel, out_shape=x)(x)


LARGE_AND_SMALL = normal((8, 1024)).at[:, ::128].set(3e7).at[:, 64::128].set(-3e7)  # the large ones cancel
# Roundings of equal terms all go one way, and add up.
EQUAL_ROWS = jnp.full((2048, 128), 0.1).at[2000:].set(0)
ROWS_ALIKE = jnp.broadcast_to(counted((1, 128)) / 7, (2048, 128))

RIGHT = (
    Right("4096 random numbers summed lane by lane", row_sums, sum_of_rows, (normal((8, 4096)),)),
    Right("4096 counted numbers summed lane by lane", row_sums, sum_of_rows, (counted((8, 4096)),)),
    Right("4096 bf16 numbers summed in f32", row_sums, sum_of_rows, (normal((16, 4096), jnp.bfloat16),)),
    Right("int32 sums that wrap round", row_sums, sum_of_rows, (whole((8, 1024), 2**30, 2**31 - 1),)),
    Right(
        "large numbers that cancel, in blocks of 256",
        functools.partial(row_sums, block=256),
        sum_of_rows,
        (LARGE_AND_SMALL,),
    ),
    Right("equal rows, one after the other, and zeros", one_row_after_the_other, column_sums, (EQUAL_ROWS,)),
    Right("rows alike, one after the other", one_row_after_the_other, column_sums, (ROWS_ALIKE,)),
    Right(
        "cumsum as a product with a triangle",
        sums_so_far_by_a_triangle,
        lambda x: jnp.cumsum(x, axis=1),
        (normal((32, 512)),),
    ),
)
