"""Failures of loops and conditions, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from provoke import call, compiled, computing


def kernel_loop_returns_nothing(x_ref, o_ref):
    def body(row, carry):
        o_ref[row, :] = x_ref[row, :]

    jax.lax.fori_loop(0, 256, body, 0)


def kernel_when_given_a_block(x_ref, o_ref):
    @pl.when(x_ref[...] > 0)
    def write():
        o_ref[...] = x_ref[...]


FAILURES = {
    "when-vector": (compiled(call(kernel_when_given_a_block)), "A condition of shape (256, 512) was given to pl.when"),
    "loop-returns-nothing": (compiled(call(kernel_loop_returns_nothing)), "The body of a loop returned None"),
    "loop-changes-type": (
        compiled(
            call(computing(lambda x: jax.lax.fori_loop(0, 4, lambda i, total: total.astype(jnp.bfloat16) + 1, x)))
        ),
        "float32[256,512] went in, bfloat16[256,512] came out.",
    ),
    "branches": (
        compiled(call(computing(lambda x: jax.lax.cond(x[0, 0] > 0, lambda: x, lambda: x[:8])))),
        "different things: float32[256,512] and float32[8,512].",
    ),
    "scan-outputs": (
        compiled(call(computing(lambda x: jax.lax.scan(lambda total, row: (total + row, total), x[0], x)[1]))),
        "The kernel uses lax.scan or lax.map on slices of a value.",
    ),
}
CURES = {
    "when-vector": compiled(call(computing(lambda x: jax.lax.cond(jnp.any(x > 0), lambda: x, lambda: -x)))),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize("cure", CURES)
def test_a_cure_compiles(cure):
    provoke.assert_compiles(CURES[cure])
