"""Failures of refs, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import numpy as np
import provoke
import pytest
from jax.experimental import pallas as pl
from provoke import Shape, call, compiled


def kernel_no_ellipsis(x_ref, o_ref):
    o_ref[...] = x_ref + 1.0


def kernel_no_ellipsis_jnp(x_ref, o_ref):
    o_ref[...] = jnp.exp(x_ref)


def kernel_ref_on_the_right(x_ref, o_ref):
    o_ref[...] = x_ref[...] + x_ref


def kernel_stores_a_ref(x_ref, o_ref):
    o_ref[...] = x_ref


def kernel_assigns_into_a_value(x_ref, o_ref):
    twice = x_ref[...]
    twice[...] *= 2
    o_ref[...] = twice


def kernel_stores_f32(x_ref, o_ref):
    o_ref[...] = x_ref[...].astype(jnp.float32)


def kernel_takes_eight_rows(x_ref, o_ref):
    def turn(i, carry):
        o_ref[pl.ds(8 * i, 8), :] = x_ref[pl.ds(8 * i, 8), :]
        return carry

    jax.lax.fori_loop(0, 1, turn, 0)


def kernel_stores_a_row(x_ref, o_ref):
    o_ref[...] = x_ref[0, :]


def kernel_loops_over_a_ref(x_ref, o_ref):
    for row in x_ref:
        o_ref[...] = row


FAILURES = {
    "forgot-ellipsis": (compiled(call(kernel_no_ellipsis)), "The kernel did arithmetic on a Ref."),
    "forgot-ellipsis, in a jnp function": (
        compiled(call(kernel_no_ellipsis_jnp)),
        "The kernel did arithmetic on a Ref.",
    ),
    "forgot-ellipsis, on the right": (compiled(call(kernel_ref_on_the_right)), "The kernel did arithmetic on a Ref."),
    "stored-ref": (compiled(call(kernel_stores_a_ref)), "The kernel wrote a Ref into a Ref."),
    "forgot-ellipsis, in NumPy": (compiled(call(lambda x, o: o.__setitem__(..., np.exp(x)))), "arithmetic on a Ref."),
    "assigned-into-value": (compiled(call(kernel_assigns_into_a_value)), "The kernel assigned into a value."),
    "store-dtype": (
        compiled(call(kernel_stores_f32), jax.ShapeDtypeStruct((256, 512), jnp.bfloat16)),
        "The kernel wrote float32 values into a ref of bfloat16.",
    ),
    "store-scalar": (
        compiled(call(lambda x, o: o.__setitem__(..., 0))),
        "The kernel wrote a scalar to a ref of shape (256, 512).",
    ),
    "store-shape": (
        compiled(call(kernel_stores_a_row)),
        "The kernel wrote a value of shape (512,) to a ref of shape (256, 512).",
    ),
    "list-index": (
        compiled(call(lambda x, o: o.__setitem__(..., x[[0, 0, 1, 1]]), out_shape=Shape((4, 512), jnp.float32))),
        "The kernel indexes a ref with a list (line ",
    ),
    "slice-backwards": (
        compiled(call(lambda x, o: o.__setitem__(..., x[::-1]))),
        "The kernel takes a slice of a ref backwards, as in x_ref[::-1] (line ",
    ),
    "slice-backwards, written to": (
        compiled(call(lambda x, o: o.__setitem__(slice(None, None, -1), x[...]))),
        "The kernel takes a slice of a ref backwards",
    ),
    "slice-backwards, by pl.ds": (
        compiled(call(lambda x, o: o.__setitem__(..., x[pl.ds(255, 256, -1)]))),
        "The kernel takes a slice of a ref backwards",
    ),
    "slice-outside": (
        compiled(call(lambda x, o: o.__setitem__(pl.ds(0, 8), x[pl.ds(250, 8)]))),
        "A slice of a ref that starts at 250 does not fit into the axis, whose length is 256.",
    ),
    "slice-too-long": (
        provoke.raised(lambda x: call(kernel_takes_eight_rows, interpret=True)(x), jnp.ones((5, 128))),
        "The kernel takes a slice of shape (8, 128) of a ref of shape (5, 128): the slice is longer than the ref.",
    ),
    "too-many-indices": (
        compiled(call(lambda x, o: o.__setitem__(..., x[0, 0, 0]))),
        "The kernel, or an index map, gives the indices (0, 0, 0) to a ref of shape (256, 512)",
    ),
    "forgot-ellipsis, after .at": (
        compiled(call(lambda x, o: o.__setitem__(..., x.at[0:256] + 1.0))),
        "arithmetic on a Ref.",
    ),
    "forgot-ellipsis, transposed": (compiled(call(lambda x, o: o.__setitem__(..., x.T))), "arithmetic on a Ref."),
    "iterated-ref": (compiled(call(kernel_loops_over_a_ref)), "The kernel ran a `for` loop over a Ref."),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_unpacking_that_the_kernel_itself_gets_wrong_is_not_a_list_as_index():
    def kernel(x_ref, o_ref):
        (one,) = x_ref.shape
        o_ref[...] = x_ref[...] * one

    told = compiled(call(kernel))()
    assert told.name == "" and "too many values to unpack" in told.what


def test_slices_that_go_forwards_are_right():
    provoke.assert_compiles(compiled(call(lambda x, o: o.__setitem__(slice(0, 256), x[0:256:1]))))
