"""Failures of operations, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from provoke import INDICES, SMEM, Shape, X, add, call, compiled, computing, matmul, of_two, prefetching

from course_lib import errors


def kernel_fetches_rows(indices_ref, x_ref, o_ref):
    def body(row, carry):
        o_ref[pl.ds(row, 1)] = x_ref[pl.ds(indices_ref[row], 1)]

    jax.lax.fori_loop(0, 32, body, None)


def kernel_chooses_rows(indices_ref, x_ref, o_ref):
    rows = jax.lax.broadcasted_iota(jnp.int32, (32, 256), 1)
    o_ref[...] = (indices_ref[...] == rows).astype(jnp.float32) @ x_ref[...]


def kernel_slices_and_writes_at_a_value(x_ref, o_ref):
    start = pl.multiple_of(x_ref[0, 0].astype(jnp.int32), 8)
    o_ref[pl.ds(start, 8)] = x_ref[pl.ds(start, 8)]


FAILURES = {
    "reshape-size": (
        compiled(call(computing(lambda x: x.reshape(64, 128)))),
        "An array of (256, 512), 131,072 elements, was to be reshaped to (64, 128), which takes 8,192.",
    ),
    "contraction": (
        compiled(of_two(matmul), X, X),
        "A matrix product does not fit: the axes that meet have 512 elements on the left, 256 on the right.",
    ),
    "broadcast": (
        compiled(of_two(add), X, Shape((256, 256), jnp.float32)),
        "Arrays of shapes (256, 512), (256, 256) met in one operation, and they do not fit together.",
    ),
    "broadcast, of a row": (
        compiled(of_two(add), X, Shape((256,), jnp.float32)),
        "Arrays of shapes (256, 512), (256,) met in one operation, and they do not fit together.",
    ),
    "gather": (compiled(call(computing(lambda x: x[jnp.arange(256) // 2]))), "picks elements by an array of indices"),
    "gather, from a ref": (
        compiled(call(lambda x, o: o.__setitem__(..., x[jnp.arange(256)]))),
        "picks elements by an array of indices",
    ),
    "strided": (
        compiled(call(lambda x, o: o.__setitem__(slice(0, 128), x[::2]))),
        "The kernel takes every second element or so, x[::2] (`get` in <lambda>, line ",
    ),
    "strided, of a value": (
        compiled(call(lambda x, o: o.__setitem__((slice(None), slice(0, 256)), x[...][:, ::2]))),
        "The kernel takes every second element or so, x[::2] (`slice` in <lambda>, line ",
    ),
    "compiler-refused": (
        compiled(call(computing(lambda x: x + x)), Shape((256, 512), jnp.float8_e4m3fn)),
        "The TPU's compiler cannot translate this kernel (`add` in <lambda>, line ",
    ),
    "empty": (
        compiled(call(computing(lambda x: jax.lax.associative_scan(jnp.add, x)))),
        "A value in the kernel has no elements (`slice` in <lambda>, line ",
    ),
    "unimplemented, with a cure of its own": (
        compiled(call(computing(lambda x: jnp.cumsum(x, axis=0)))),
        "no way to do `cumsum` inside",
    ),
}
CURES = {
    "broadcast": compiled(call(computing(lambda x: x / x.sum(axis=1, keepdims=True) + x[:, 0][:, None]))),
    "cumsum": compiled(call(computing(lambda x: jnp.tril(jnp.ones((256, 256))) @ x))),
    "dynamic_slice": compiled(call(kernel_slices_and_writes_at_a_value)),
    "erfc": compiled(call(computing(lambda x: jax.nn.gelu(x, approximate=True) + jax.scipy.special.erf(x)))),
    "gather, by rows": compiled(
        of_two(kernel_fetches_rows, Shape((32, 512), jnp.float32), in_specs=[SMEM, pl.BlockSpec()]), INDICES, X
    ),
    "gather, by a product": compiled(
        of_two(kernel_chooses_rows, Shape((32, 512), jnp.float32)), Shape((32, 1), jnp.int32), X
    ),
    "gather, by scalar prefetch": compiled(prefetching(lambda i, indices_ref: (indices_ref[i], 0)), INDICES, X),
    "reduce_prod": compiled(
        call(computing(lambda x: x + jnp.exp(jnp.sum(jnp.log(x), axis=1, keepdims=True)))),
    ),
    "scatter": compiled(
        call(computing(lambda x: jnp.where(jax.lax.broadcasted_iota(jnp.int32, x.shape, 0) == 3, 0.0, x)))
    ),
    "strided": compiled(
        call(lambda x, o: o.__setitem__(slice(0, 128), x[...].reshape(128, 2, 512)[:, 0])),
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize("cure", CURES)
def test_a_cure_compiles(cure):
    provoke.assert_compiles(CURES[cure])


def test_an_operation_the_tpu_lacks_gets_a_cure_of_its_own():
    assert "triangular matrix" in FAILURES["unimplemented, with a cure of its own"][0]().next


def test_a_program_that_breaks_a_rule_of_the_compiler():
    text = (
        'MLIRError: Verification failed:\nerror: "mul:"("mul/mul"(callsite("kernel"("cell.py":3:4 to :9)))): bad\n'
        "VerificationError: Pallas encountered an internal verification error. Please file a bug at https://a.b. Error "
        "details: 'arith.mulf' op requires the same type for all operands\n see current operation: %7"
    )
    assert errors.explain(text).what == (
        "The TPU's compiler cannot translate this kernel (`mul` in kernel, line 3): 'arith.mulf' op requires the same "
        "type for all operands."
    )
