"""The same product, its blocks visited in every order that keeps an output block together."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import counted, normal

X, Y = normal((64, 256), jnp.bfloat16), normal((256, 256), jnp.bfloat16, seed=1)  # 2 x 2 x 2 blocks
BM, BN, BK = 32, 128, 128
OUT = jax.ShapeDtypeStruct((64, 256), jnp.float32)


def product(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32)


def in_order(x_map, y_map, o_map, grid=(2, 2, 2), first=lambda: pl.program_id(2) == 0, semantics=None):
    """The product over one grid; ``first`` says whether a step is the first of its output block."""

    def kernel(x_ref, y_ref, o_ref):
        @pl.when(first())
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    return pl.pallas_call(
        kernel,
        out_shape=OUT,
        grid=grid,
        in_specs=[pl.BlockSpec((BM, BK), x_map), pl.BlockSpec((BK, BN), y_map)],
        out_specs=pl.BlockSpec((BM, BN), o_map),
        compiler_params=pltpu.CompilerParams(dimension_semantics=semantics),
    )


columns_before_rows = in_order(lambda j, i, k: (i, k), lambda j, i, k: (k, j), lambda j, i, k: (i, j))

backwards = in_order(lambda i, j, k: (1 - i, 1 - k), lambda i, j, k: (1 - k, 1 - j), lambda i, j, k: (1 - i, 1 - j))

in_one_axis = in_order(
    lambda s: (s // 4, s % 2),
    lambda s: (s % 2, s // 2 % 2),
    lambda s: (s // 4, s // 2 % 2),
    grid=(8,),
    first=lambda: pl.program_id(0) % 2 == 0,
)

# There and back: k runs 0 1, then 1 0, so that the block of y in the middle is fetched once.
there_and_back = in_order(
    lambda i, j, k: (i, jnp.where(j == 0, k, 1 - k)),
    lambda i, j, k: (jnp.where(j == 0, k, 1 - k), j),
    lambda i, j, k: (i, j),
)


rows_and_columns_in_parallel = in_order(
    lambda i, j, k: (i, k),
    lambda i, j, k: (k, j),
    lambda i, j, k: (i, j),
    semantics=("parallel", "parallel", "arbitrary"),
)


def three_axes(x):
    """A block of one row of tiles at each step, the last axis of the grid the first of the array."""

    def kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]

    spec = pl.BlockSpec((1, 8, 128), lambda j, k, i: (i, j, k))
    return pl.pallas_call(kernel, out_shape=x, grid=(2, 2, 3), in_specs=[spec], out_specs=spec)(x)


RIGHT = (
    Right("columns before rows", columns_before_rows, product, (X, Y)),
    Right("every axis backwards", backwards, product, (X, Y)),
    Right("three loops in one grid axis", in_one_axis, product, (X, Y)),
    Right("the reduction there and back", there_and_back, product, (X, Y)),
    Right("rows and columns parallel, the reduction not", rows_and_columns_in_parallel, product, (X, Y)),
    Right("a grid of three axes, turned", three_axes, lambda x: 2 * x, (counted((3, 16, 256)),)),
)
