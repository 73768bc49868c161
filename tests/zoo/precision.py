"""Numbers held in too narrow a dtype on the way, and formulas that lose digits."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import counted, normal
from zoo.bug import Bug

ROWS = 8
HIGHEST = jax.lax.Precision.HIGHEST


def accumulated_in_bf16(x, y):
    """x @ y, 128 of the sum at a step, kept in a scratch buffer of bfloat16."""

    def product_kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(0) == 0)
        def _start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        part = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
        acc_ref[...] += part.astype(acc_ref.dtype)

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def _finish():
            o_ref[...] = acc_ref[...].astype(jnp.float32)

    return pl.pallas_call(
        product_kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), jnp.float32),
        grid=(x.shape[1] // 128,),
        in_specs=[pl.BlockSpec((x.shape[0], 128), lambda k: (0, k)), pl.BlockSpec((128, 128), lambda k: (k, 0))],
        out_specs=pl.BlockSpec((x.shape[0], 128), lambda k: (0, 0)),
        scratch_shapes=[pltpu.VMEM((x.shape[0], 128), jnp.bfloat16)],
    )(x, y)


def whole(kernel, out_dtype, *args):
    """A kernel of whole arrays, with an output of the first one's shape."""
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(args[0].shape, out_dtype))(*args)


def inputs_rounded_to_bf16(x, y):
    def product_kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(
            x_ref[...].astype(jnp.bfloat16), y_ref[...].astype(jnp.bfloat16), preferred_element_type=jnp.float32
        )

    return whole(product_kernel, jnp.float32, x, y)


def precision_not_named(x, y):
    """A product of float32 numbers at the default precision, for which the chip rounds both to bfloat16."""

    def product_kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    return whole(product_kernel, jnp.float32, x, y)


def variance_by_squares(x):
    """x minus its mean, over its standard deviation; the variance as the mean of squares less the squared mean."""

    def normalise_kernel(x_ref, o_ref):
        x = x_ref[...]
        mean = x.mean(-1, keepdims=True)
        variance = (x * x).mean(-1, keepdims=True) - mean * mean
        o_ref[...] = (x - mean) * jax.lax.rsqrt(variance + 1e-6)

    return whole(normalise_kernel, x.dtype, x)


def approximate_division(x, y):
    """x / y with the reciprocal that the chip estimates, good for bfloat16."""

    def divide_kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * pl.reciprocal(y_ref[...], approx=True)

    return whole(divide_kernel, x.dtype, x, y)


def integers_through_float32(x, y):
    def add_kernel(x_ref, y_ref, o_ref):
        total = x_ref[...].astype(jnp.float32) + y_ref[...].astype(jnp.float32)
        o_ref[...] = total.astype(jnp.int32)

    return whole(add_kernel, jnp.int32, x, y)


def dot(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32)


def exact_dot(x, y):
    return jnp.dot(x, y, precision=HIGHEST, preferred_element_type=jnp.float32)


def normalised(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-6)


LONG = (normal(ROWS, 1024, dtype=jnp.bfloat16), normal(1024, 128, seed=1, dtype=jnp.bfloat16))
SQUARE = (normal(128, 128), normal(128, 128, seed=1))
LARGE = counted(ROWS, 128, dtype="int32") + (1 << 24)

BUGS = (
    *(
        Bug(kind="precision", name=name, fn=fn, reference=reference, args=args, caught_by="numbers", says=says)
        for name, fn, reference, args, says in (
            (
                "accumulator in bfloat16",
                accumulated_in_bf16,
                dot,
                LONG,
                r"(?s)accumulating, in bfloat16.*float32 scratch",
            ),
            (
                "inputs rounded to bfloat16",
                inputs_rounded_to_bf16,
                exact_dot,
                SQUARE,
                r"(?s)nearly right.*bfloat16",
            ),
            (
                "variance by the mean of squares",
                variance_by_squares,
                normalised,
                (normal(ROWS, 128) + 1000,),
                r"(?s)nearly right.*(cancels|digits|subtract)",
            ),
            (
                "approximate reciprocal",
                approximate_division,
                jnp.divide,
                (normal(ROWS, 128), normal(ROWS, 128, seed=1) ** 2 + 1),
                r"(?s)nearly right.*approx",
            ),
            (
                "integers through float32",
                integers_through_float32,
                jnp.add,
                (LARGE, LARGE),
                r"float32, which holds 24 bits",
            ),
        )
    ),
    Bug(
        name="float32 product, default precision",
        kind="precision",
        fn=precision_not_named,
        reference=exact_dot,
        args=SQUARE,
        caught_by=None,
        undetectable="only a chip shows it: there the product rounds float32 to bfloat16 first, while every simulator "
        "here keeps float32. The compiler takes it without a word.",
    ),
)
