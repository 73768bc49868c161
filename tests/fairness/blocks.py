"""Blocks of every kind: squeezed, by element, whole, of one axis, in SMEM, shared by all steps."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import counted, normal


def squeezed(x):
    """The batch axis is None in the block: the kernel sees two axes."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] - jnp.max(x_ref[...], axis=0, keepdims=True)

    spec = pl.BlockSpec((None, 16, 128), lambda b, j: (b, 0, j))
    return pl.pallas_call(kernel, out_shape=x, grid=(3, 2), in_specs=[spec], out_specs=spec)(x)


def below_the_largest(x):
    return x - jnp.max(x, axis=1, keepdims=True)


def three_rows_each(x):
    """Blocks by element: each has the eight rows of its step and eight more, which the next step reads again."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[0:8] + x_ref[1:9] + x_ref[2:10]

    rows, columns = x.shape[0] - 8, x.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((rows, columns), x.dtype),
        grid=(rows // 8,),
        in_specs=[pl.BlockSpec((pl.Element(16), pl.Element(columns)), lambda i: (8 * i, 0))],
        out_specs=pl.BlockSpec((8, columns), lambda i: (i, 0)),
    )(x)


def sums_of_three_rows(x):
    n = x.shape[0] - 8
    return x[:n] + x[1 : n + 1] + x[2 : n + 2]


def one_axis(x, y):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] - y_ref[...]

    spec = pl.BlockSpec((1024,), lambda i: (i,))
    return pl.pallas_call(kernel, out_shape=x, grid=(pl.cdiv(x.size, 1024),), in_specs=[spec] * 2, out_specs=spec)(x, y)


def scale_and_shift(x, scale, shift):
    """The row of scales is the same block at all steps, in one buffer; the shift is a scalar in SMEM."""

    def kernel(scale_ref, shift_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] * scale_ref[...] + shift_ref[0]

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(4,),
        in_specs=[
            pl.BlockSpec((1, 128), lambda i: (0, 0), pipeline_mode=pl.Buffered(1)),
            pl.BlockSpec(memory_space=pltpu.SMEM),
            spec,
        ],
        out_specs=spec,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(scale.reshape(1, -1), shift.reshape(1), x)


def transposing_blocks(x):
    """Block (i, j) goes to (j, i), and is turned on the way."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].T

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape[::-1], x.dtype),
        grid=(2, 3),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j: (j, i)),
    )(x)


RIGHT = (
    Right("a squeezed batch axis", squeezed, below_the_largest, (counted((3, 16, 256)),)),
    Right("overlapping blocks by element", three_rows_each, sums_of_three_rows, (counted((40, 128)),)),
    Right("blocks of one axis, ragged", one_axis, jnp.subtract, (normal((2500,)), normal((2500,), seed=1))),
    Right(
        "a block for all steps in one buffer, a scalar in SMEM",
        scale_and_shift,
        lambda x, scale, shift: x * scale + shift,
        (normal((32, 128)), counted((128,)), jnp.float32(3)),
    ),
    Right("blocks that are turned over", transposing_blocks, jnp.transpose, (counted((256, 384)),)),
)
