"""Formulas that are not the ones asked for: what breaks only on large, small, equal or missing numbers."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from zoo.arrays import counted, normal
from zoo.bug import Bug

ROWS = 8


def by_rows(body, x):
    """``body`` of blocks of eight rows."""

    def rows_kernel(x_ref, o_ref):
        o_ref[...] = body(x_ref[...])

    spec = pl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        rows_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // ROWS,),
        in_specs=[spec],
        out_specs=spec,
    )(x)


def divide(x, y):
    """x / y, with what is no number made one."""

    def divide_kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.nan_to_num(x_ref[...] / y_ref[...])

    return pl.pallas_call(divide_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


def softmax_without_the_maximum(x):
    e = jnp.exp(x)
    return e / e.sum(-1, keepdims=True)


def softmax_over_columns(x):
    e = jnp.exp(x - x.max(0, keepdims=True))
    return e / e.sum(0, keepdims=True)


def rms_without_eps(x):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True))


def rms_norm(x):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-8)


def relu_that_swallows_nan(x):
    return jnp.where(x > 0, x, 0.0)


def transposed_blocks(x):
    """x transposed: the blocks change places, and each stays as it is."""

    def transpose_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        transpose_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape[::-1], x.dtype),
        grid=(2, 2),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j: (j, i))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)),
    )(x)


SMALL = normal(16, 128)
ONE_ZERO_ROW = SMALL * (np.arange(16) != 9)[:, None]
WITH_NAN = np.where(counted(16, 128) == 1100, np.float32(np.nan), SMALL)

BUGS = tuple(
    Bug(kind="arithmetic", name=name, fn=fn, reference=reference, args=args, caught_by="numbers", says=says)
    for name, fn, reference, args, says in (
        (
            "softmax without the maximum",
            lambda x: by_rows(softmax_without_the_maximum, x),
            lambda x: jax.nn.softmax(x, axis=-1),
            (SMALL * 100,),
            r"(?s)nan; it should be.*(overflow|exp)",
        ),
        (
            "softmax over the wrong axis",
            lambda x: by_rows(softmax_over_columns, x),
            lambda x: jax.nn.softmax(x, axis=-1),
            (SMALL,),
            r"(?s)at \[0, 0\] depends on x\[1:8, :\], but should not.*a sum along another axis",
        ),
        (
            "eps forgotten",
            lambda x: by_rows(rms_without_eps, x),
            rms_norm,
            (ONE_ZERO_ROW,),
            r"(?s)\[9, 0\] is nan; it should be -?0\..*the term 1e-08 is left out under the square root",
        ),
        (
            "relu that swallows NaN",
            lambda x: by_rows(relu_that_swallows_nan, x),
            lambda x: jnp.maximum(x, 0.0),
            (WITH_NAN,),
            r"(?s)\[8, 76\] is 0; it should be nan.*NaN.* must propagate",
        ),
        (
            "nan_to_num over a division by zero",
            divide,
            jnp.divide,
            (SMALL, np.where(counted(16, 128) == 1100, np.float32(0), SMALL + 5)),
            r"(?s)\[8, 76\] is 3\.4\d*e\+38; it should be inf.*infinity must propagate",
        ),
        (
            "blocks transposed, insides not",
            transposed_blocks,
            jnp.transpose,
            (counted(256, 256),),
            r"(?s)\[0, 1\] is 1; it should be 256.*transpose",
        ),
    )
)
