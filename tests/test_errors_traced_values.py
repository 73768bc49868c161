"""Failures of values that are not known yet, each provoked for real, and what a learner reads."""

import jax.numpy as jnp
import numpy as np
import provoke
import pytest
from jax.experimental import pallas as pl
from provoke import ROWS_OF_8, call, compiled, computing, copy, simulated


def kernel_if(x_ref, o_ref):
    if x_ref[0, 0] > 0:
        o_ref[...] = x_ref[...]


def kernel_loops_to_a_value(x_ref, o_ref):
    for row in range(pl.program_id(0)):
        o_ref[row, :] = x_ref[row, :]


def kernel_slice_of_traced_size(x_ref, o_ref):
    o_ref[...] = x_ref[pl.ds(0, x_ref[0, 0].astype(jnp.int32))]


def kernel_slices_a_ref_to_a_value(x_ref, o_ref):
    o_ref[:, :1] = jnp.sum(x_ref[:, : pl.program_id(0) + 1], axis=1, keepdims=True)


def kernel_slices_a_value_to_a_value(x_ref, o_ref):
    o_ref[:, :1] = jnp.sum(x_ref[...][:, : pl.program_id(0) + 1], axis=1, keepdims=True)


def keeps_a_value(x):
    kept = []

    def kernel(x_ref, o_ref):
        kept.append(x_ref[...])
        o_ref[...] = x_ref[...]

    return call(kernel)(x) + kept[0]


def captures():
    weights = jnp.arange(512, dtype=jnp.float32)

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * weights

    return kernel


FAILURES = {
    "numpy-in-kernel": (compiled(call(lambda x, o: o.__setitem__(..., np.exp(x[...])))), "A NumPy function was given"),
    "number-in-kernel": (
        compiled(call(lambda x, o: o.__setitem__(..., float(x[0, 0])))),
        "asked for a plain Python number",
    ),
    "length-of-a-result": (
        compiled(lambda x: jnp.repeat(x, jnp.int32(x[:, 0]), axis=0)),
        "The length of the result of jnp.repeat depends on values",
    ),
    "length-of-a-result, of a count": (
        compiled(lambda x: jnp.bincount(jnp.int32(x[:, 0]))),
        "the result of jnp.bincount depends on values",
    ),
    "length-of-a-result, of places": (compiled(lambda x: jnp.nonzero(x[0])[0]), "the result of jnp.nonzero depends"),
    "truth-of-an-array": (
        compiled(call(computing(lambda x: x if np.arange(3) > 1 and x is not None else x))),
        "An array of several elements is used where Python needs one truth value",
    ),
    "waited-for": (compiled(lambda x: call(copy)(x).block_until_ready()), "The function waits for its result"),
    "captured": (compiled(call(captures())), "The kernel uses an array that is not one of its refs, [f32[512]]"),
    "traced-if": (compiled(call(kernel_if)), "The kernel used `if`"),
    "slice-of-a-value": (
        compiled(call(kernel_slices_a_ref_to_a_value, (8, 512), (32,), ROWS_OF_8[1])),
        "takes a slice [a:b] with an end that is known only when it runs",
    ),
    "slice-of-a-value, of a value": (
        compiled(call(kernel_slices_a_value_to_a_value, (8, 512), (32,), ROWS_OF_8[1])),
        "takes a slice [a:b] with an end that is known only when it runs",
    ),
    "leaked": (simulated(keeps_a_value), "float32[256,512], was stored"),
    "for-range": (compiled(call(kernel_loops_to_a_value, (8, 512), (32,), ROWS_OF_8[1])), "as a Python integer"),
    "dynamic-size": (compiled(call(kernel_slice_of_traced_size)), "a slice whose size is known only when it runs"),
    "boolean-index": (compiled(call(computing(lambda x: x[x > 0]))), "picks elements with an array of booleans"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])
