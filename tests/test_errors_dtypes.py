"""Failures of dtypes, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import numpy as np
import provoke
import pytest
from provoke import ROWS_OF_8, Shape, call, compiled, computing, copy, matmul, of_two

SQUARE = Shape((256, 256), jnp.bfloat16)
SQUARE_F32 = Shape((256, 256), jnp.float32)


def kernel_adds_bytes(x_ref, o_ref):
    total = x_ref[...]
    o_ref[...] = total + total


def in_64_bits(provoke):
    def explain():
        with jax.enable_x64(True):
            return provoke()

    return explain


FAILURES = {
    "product-dtype": (
        compiled(of_two(matmul, SQUARE), SQUARE, SQUARE),
        "The kernel multiplies bf16 matrices and asks for a result in bf16 (`dot_general` in matmul, line ",
    ),
    "product-dtype, of float32": (
        compiled(
            call(computing(lambda x: jnp.dot(x, x, preferred_element_type=jnp.bfloat16)), out_shape=SQUARE), SQUARE_F32
        ),
        "The kernel multiplies f32 matrices and asks for a result in bf16 (`dot_general` in <lambda>, line ",
    ),
    "factor-dtype": (
        compiled(of_two(matmul, Shape((256, 256), jnp.int32)), *2 * [Shape((256, 256), jnp.int32)]),
        "The kernel multiplies matrices of i32 (`dot_general` in matmul, line ",
    ),
    "small-integers": (
        compiled(call(kernel_adds_bytes), Shape((256, 512), jnp.int8)),
        "The kernel does arithmetic on 8-bit integers (`add` in kernel_adds_bytes, line ",
    ),
    "float16": (
        compiled(call(copy), Shape((256, 512), jnp.float16)),
        "The kernel reads float16 values (`get` in copy, line ",
    ),
    "64-bit": (
        in_64_bits(compiled(call(copy), Shape((256, 512), np.dtype("float64")))),
        "The kernel uses 64-bit values.",
    ),
    "64-bit, in the kernel": (
        in_64_bits(compiled(call(computing(lambda x: (x.astype("float64") * 2).astype("float32"))))),
        "The kernel uses 64-bit values.",
    ),
    "64-bit-index-map": (
        in_64_bits(compiled(call(copy, (8, 512), (32,), ROWS_OF_8[1]))),
        "it turned the Python integers that an index map returns into 64-bit integers",
    ),
    "complex": (
        compiled(call(copy), Shape((256, 512), jnp.complex64)),
        "values of a type that TPU registers cannot hold (`get` in copy, line ",
    ),
    "float-count": (
        compiled(call(computing(lambda x: x + jnp.arange(512, dtype=jnp.float32)))),
        "The kernel counts 0, 1, 2, ... in floats (`iota`",
    ),
}
CURES = {
    "factor-dtype": compiled(
        of_two(
            lambda x, y, o: o.__setitem__(..., jnp.dot(x[...], y[...], preferred_element_type=jnp.int32)),
            Shape((256, 256), jnp.int32),
        ),
        *2 * [Shape((256, 256), jnp.int8)],
    ),
    "float-count": compiled(call(computing(lambda x: x + jnp.arange(512).astype(jnp.float32)))),
    "product-dtype": compiled(
        of_two(
            lambda x, y, o: o.__setitem__(
                ..., jnp.dot(x[...], y[...], preferred_element_type=jnp.float32).astype(o.dtype)
            ),
            SQUARE,
        ),
        *2 * [SQUARE],
    ),
    "small-integers": compiled(
        call(computing(lambda x: (2 * x.astype(jnp.int32)).astype(jnp.int8))), Shape((256, 512), jnp.int8)
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize("cure", CURES)
def test_a_cure_compiles(cure):
    provoke.assert_compiles(CURES[cure])
