"""Where the running sum lives, how many there are, and in which precision."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from fairness import Right
from fairness.inputs import normal, whole

X, Y = normal((32, 512), jnp.bfloat16), normal((512, 128), jnp.bfloat16, seed=1)


def product(x, y, out_dtype, scratch, kernel):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), out_dtype),
        grid=(x.shape[1] // 128,),
        in_specs=[pl.BlockSpec((x.shape[0], 128), lambda k: (0, k)), pl.BlockSpec((128, y.shape[1]), lambda k: (k, 0))],
        out_specs=pl.BlockSpec((x.shape[0], y.shape[1]), lambda k: (0, 0)),
        scratch_shapes=scratch,
    )(x, y)


def in_scratch_kernel(x_ref, y_ref, o_ref, acc_ref, spare_ref, spare_smem):
    """One scratch more in VMEM and one in SMEM than are used."""
    k = pl.program_id(0)

    @pl.when(k == 0)
    def start():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == pl.num_programs(0) - 1)
    def finish():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def in_scratch(x, y):
    scratch = [pltpu.VMEM((32, 128), jnp.float32), pltpu.VMEM((8, 128), jnp.float32), pltpu.SMEM((4,), jnp.int32)]
    return product(x, y, jnp.bfloat16, scratch, in_scratch_kernel)


def asked_in_bf16(x, y):
    """The result is bfloat16; how to add up is not said."""
    return jnp.dot(x, y)


def first_by_assignment(x, y):
    """The first step writes, the others add: nothing is ever set to zero. The output itself is the accumulator."""

    def kernel(x_ref, y_ref, o_ref):
        part = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(0) == 0)
        def first():
            o_ref[...] = part

        @pl.when(pl.program_id(0) > 0)
        def others():
            o_ref[...] += part

    return product(x, y, jnp.float32, [], kernel)


def asked_in_f32(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32)


def split_reduction(x, y):
    """Each half of the reduction into a part of its own, in parallel; a second kernel adds the parts."""

    def half_kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[0] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    def add_kernel(halves_ref, o_ref):
        o_ref[...] = halves_ref[0] + halves_ref[1]

    halves = pl.pallas_call(
        half_kernel,
        out_shape=jax.ShapeDtypeStruct((2, 32, 128), jnp.float32),
        grid=(2, 2),
        in_specs=[
            pl.BlockSpec((32, 128), lambda half, k: (0, 2 * half + k)),
            pl.BlockSpec((128, 128), lambda half, k: (2 * half + k, 0)),
        ],
        out_specs=pl.BlockSpec((1, 32, 128), lambda half, k: (half, 0, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x, y)
    return pl.pallas_call(add_kernel, out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32))(halves)


def exact_product(x, y):
    """int8 times int8 into int32: no rounding anywhere."""

    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def start():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.int32)

    return product(x, y, jnp.int32, [], kernel)


def chosen_by_where_in_parallel(x):
    """At its first step a row reads what another row, or nobody, has left in the scratch, and throws it away."""

    def kernel(x_ref, o_ref, acc_ref):
        acc_ref[...] = jnp.where(pl.program_id(1) == 0, 0, acc_ref[...]) + x_ref[...]
        o_ref[...] = acc_ref[...]

    return by_rows_in_parallel(kernel, x)


def parallel_with_scratch(x):
    """Row blocks in parallel, each with a running sum in scratch that begins anew: nothing passes between rows."""

    def kernel(x_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(1) == 0)
        def start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += x_ref[...]

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def finish():
            o_ref[...] = acc_ref[...]

    return by_rows_in_parallel(kernel, x)


def by_rows_in_parallel(kernel, x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 128), x.dtype),
        grid=(x.shape[0] // 8, x.shape[1] // 128),
        in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k))],
        out_specs=pl.BlockSpec((8, 128), lambda i, k: (i, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), x.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)


def sums_of_lanes(x):
    return jnp.sum(x.reshape(x.shape[0], -1, 128), axis=1)


BYTES = whole((32, 512), -128, 128, jnp.int8), whole((512, 128), -128, 128, jnp.int8, seed=1)

RIGHT = (
    Right("an f32 accumulator where bf16 is asked, and spare scratch", in_scratch, asked_in_bf16, (X, Y)),
    Right("the first step assigns, nothing is zeroed", first_by_assignment, asked_in_f32, (X, Y)),
    Right("a split reduction and a second kernel", split_reduction, asked_in_f32, (X, Y)),
    Right("rows in parallel, a scratch that begins anew", parallel_with_scratch, sums_of_lanes, (normal((32, 384)),)),
    Right("rows in parallel, by where", chosen_by_where_in_parallel, sums_of_lanes, (normal((32, 384)),)),
    Right(
        "int8 into int32, exactly",
        exact_product,
        functools.partial(jnp.dot, preferred_element_type=jnp.int32),
        BYTES,
    ),
)
