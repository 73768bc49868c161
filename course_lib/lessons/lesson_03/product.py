"""Helpers of several exercises of lesson 3: matmul kernels, and the message for confusing Mi with M."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import grid

MI = 2**20
MI_IS_NOT_M = "64 Mi is 64 times 1,048,576, while a GB is 1,000,000,000 bytes: k, M, G and Ki, Mi, Gi differ."


def array(*shape: int, dtype=jnp.bfloat16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def square(n: int, dtype=jnp.bfloat16) -> tuple:
    return array(n, n, dtype=dtype), array(n, n, dtype=dtype)


def in_blocks(x, y, bm, bk, bn):
    """Return x[m, k] @ y[k, n], computed in blocks with k innermost."""
    (m, k), n = x.shape, y.shape[1]

    def kernel(x_ref, y_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def zero():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def store():
            o_ref[...] = acc_ref[...].astype(o_ref.dtype)

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, y)


def one_block(m: int, k: int, n: int, itemsize: int) -> grid.Walk:
    """Return the walk of a matmul kernel that copies every array once, which gives its bytes and FLOPs."""
    dtype = {1: jnp.float8_e4m3fn, 2: jnp.bfloat16, 4: jnp.float32}[itemsize]

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32).astype(o_ref.dtype)

    product = pl.pallas_call(kernel, out_shape=array(m, n, dtype=dtype))
    return grid.walk(product, array(m, k, dtype=dtype), array(k, n, dtype=dtype))
