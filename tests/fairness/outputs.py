"""What a function gives back: tuples, dicts, outputs that are dropped, memory that is used twice."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import normal

X = normal((32, 256))


def largest_and_where(x):
    """A dict, of what the kernel returns as a list, in another order."""

    def kernel(x_ref, where_ref, top_ref):
        top_ref[...] = jnp.max(x_ref[...], axis=1, keepdims=True)
        where_ref[...] = jnp.argmax(x_ref[...], axis=1, keepdims=True).astype(jnp.int32)

    column = pl.BlockSpec((8, 1), lambda i: (i, 0))
    where, top = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct((32, 1), jnp.int32), jax.ShapeDtypeStruct((32, 1), x.dtype)],
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 256), lambda i: (i, 0))],
        out_specs=[column, column],
    )(x)
    return {"top": top[:, 0], "where": where[:, 0]}


def asked_as_a_dict(x):
    return {"top": jnp.max(x, axis=1), "where": jnp.argmax(x, axis=1).astype(jnp.int32)}


def one_of_two(x):
    """The kernel needs room for exp(x) and takes it as an output, which nobody wants."""

    def kernel(x_ref, o_ref, exp_ref):
        exp_ref[...] = jnp.exp(x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True))
        o_ref[...] = exp_ref[...] / jnp.sum(exp_ref[...], axis=1, keepdims=True)

    spec = pl.BlockSpec((8, 256), lambda i: (i, 0))
    softmax, _ = pl.pallas_call(kernel, out_shape=(x, x), grid=(4,), in_specs=[spec], out_specs=(spec, spec))(x)
    return softmax


def never_written(x):
    """An output that the kernel does not touch and the function does not return."""

    def kernel(x_ref, o_ref, spare_ref):
        o_ref[...] = -x_ref[...]

    return pl.pallas_call(kernel, out_shape=[x, x])(x)[0]


def list_for_tuple(x):
    def kernel(x_ref, negative_ref, half_ref):
        negative_ref[...] = -x_ref[...]
        half_ref[...] = x_ref[...] / 2

    return pl.pallas_call(kernel, out_shape=[x, x])(x)


def moments(x):
    """A tuple: one output is written at every step, the other two stay where they are until the last."""

    def kernel(x_ref, o_ref, total_ref, squares_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            total_ref[...] = jnp.zeros_like(total_ref)
            squares_ref[...] = jnp.zeros_like(squares_ref)

        o_ref[...] = jnp.abs(x_ref[...])
        total_ref[...] += jnp.sum(x_ref[...], axis=0, keepdims=True)
        squares_ref[...] += jnp.sum(x_ref[...] * x_ref[...], axis=0, keepdims=True)

    row, block = pl.BlockSpec((1, 256), lambda i: (0, 0)), pl.BlockSpec((8, 256), lambda i: (i, 0))
    sums = jax.ShapeDtypeStruct((1, 256), x.dtype)
    return tuple(
        pl.pallas_call(kernel, out_shape=[x, sums, sums], grid=(4,), in_specs=[block], out_specs=[block, row, row])(x)
    )


def asked_as_a_tuple(x):
    return jnp.abs(x), jnp.sum(x, axis=0, keepdims=True), jnp.sum(x * x, axis=0, keepdims=True)


def a_single_number(x):
    """A sum of everything, returned without axes."""

    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def finish():
            o_ref[0, 0] = jnp.sum(acc_ref[...])

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1, 1), x.dtype),
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 256), lambda i: (i, 0))],
        out_specs=pl.BlockSpec(memory_space=pltpu.SMEM),
        scratch_shapes=[pltpu.VMEM((8, 256), jnp.float32)],
    )(x)[0, 0]


RIGHT = (
    Right("a dict of two outputs, turned round", largest_and_where, asked_as_a_dict, (X,)),
    Right("an output that is dropped", one_of_two, lambda x: jax.nn.softmax(x, axis=-1), (X,)),
    Right("an output that nobody writes or wants", never_written, jnp.negative, (X,)),
    Right("a list for a tuple", list_for_tuple, lambda x: (-x, x / 2), (X,)),
    Right("three outputs, two of which stay to the end", moments, asked_as_a_tuple, (X,)),
    Right("a sum of everything, through SMEM", a_single_number, jnp.sum, (X,)),
)
