"""Failures of a pallas_call and of what is returned, each provoked for real, and what a learner reads."""

import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import Shape, V, add, call, compiled, copy, raised


def kernel_returns(x_ref, o_ref):
    return x_ref[...] + 1.0


def kernel_three_refs(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def kernel_one_ref(x_ref):
    x_ref[...] = x_ref[...] + 1.0


def no_parameters():
    """Takes nothing."""


class Layer:
    def __init__(self, n):
        self.n = n

    def call(x):
        return x


def with_scratch(scratch_shapes):
    return lambda x: pl.pallas_call(add, out_shape=x, scratch_shapes=scratch_shapes)(x)


FAILURES = {
    "not-a-tuple": (
        compiled(call(copy, block=1024, grid=(4,), index_map=lambda i: (i,)), V),
        "integer is where a tuple",
    ),
    "out-shape": (compiled(lambda x: pl.pallas_call(copy, out_shape=4096)(x)), "out_shape is neither"),
    "not-an-array": (compiled(lambda x: (x, x.dtype)), "The result contains something that is not an array"),
    "kernel-returns": (compiled(call(kernel_returns)), "The kernel returned a value."),
    "too-many-arguments": (
        compiled(call(copy, block=(8, 512), grid=(32, 1), index_map=lambda i: (i, 0))),
        "<lambda> was given 2 arguments, but takes 1.",
    ),
    "too-many-arguments, for a kernel": (
        compiled(call(kernel_one_ref)),
        "kernel_one_ref was given 2 arguments, but takes 1.",
    ),
    "too-many-arguments, one": (raised(lambda x: no_parameters(x), V), "given 1 argument, but takes 0."),
    "too-many-arguments, of a method": (raised(lambda x: Layer(3).call(x), V), "Layer.call was given 2 arguments"),
    "too-many-arguments, of __init__": (raised(lambda: Layer(1, 2)), "Layer.__init__ was given 3 arguments"),
    "too-few-arguments, of __init__": (raised(lambda: Layer()), "Layer.__init__ needs more arguments"),
    "too-few-arguments, of pallas_call": (raised(lambda x: pl.pallas_call(copy)(x), V), "pallas_call needs more"),
    "too-few-arguments, called too early": (
        compiled(lambda x, y: pl.pallas_call(add(x, y), out_shape=x)(x, y), V, V),
        "add needs more arguments than it was given: 'o_ref'",
    ),
    "too-few-arguments, of an index map": (
        compiled(call(copy, block=(8, 512), grid=(32,), index_map=lambda i, j: (i, j))),
        "<lambda> needs more arguments than it was given: 'j'",
    ),
    "arrays-to-pallas-call": (
        compiled(lambda x, y: pl.pallas_call(add, x, y), V, V),
        "It returns a function, which takes the arrays.",
    ),
    "arrays-to-pallas-call, with an out_shape": (
        compiled(lambda x, y: pl.pallas_call(add, x, y, out_shape=x), V, V),
        "It returns a function, which takes the arrays.",
    ),
    "too-few-arguments": (
        compiled(call(kernel_three_refs)),
        "kernel_three_refs needs more arguments than it was given: 'o_ref'",
    ),
    "returned-function": (
        compiled(lambda x: pl.pallas_call(copy, out_shape=x)),
        "The result is a function, not an array",
    ),
    "aliases": (
        compiled(
            call(
                lambda x, o: o.__setitem__(..., jnp.zeros(o.shape, o.dtype)),
                out_shape=Shape((8, 512), jnp.float32),
                input_output_aliases={0: 0},
            )
        ),
        "the memory of input 0, but they differ: the input is float32[256,512], the output float32[8,512].",
    ),
    "kernel-returns, a function": (compiled(call(lambda x, o: pl.when(True))), "The kernel returned a value."),
    "kernel-none": (compiled(call(None)), "pallas_call was given None instead of a kernel."),
    "scratch-shapes": (
        compiled(with_scratch([Shape((8, 128), jnp.float32)])),
        "scratch_shapes is not a list of memories",
    ),
    "scratch-shapes, not a list": (
        compiled(with_scratch(pltpu.VMEM((8, 128), jnp.float32))),
        "scratch_shapes is not a list of memories",
    ),
    "too-many-arguments, with scratch": (
        compiled(call(copy, scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)])),
        "copy was given 3 arguments, but takes 2.",
    ),
    "compiler-params": (
        compiled(call(copy, compiler_params={"mosaic": {"dimension_semantics": ("parallel",)}})),
        "A dict is where JAX needs an immutable value.",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize(
    "failure, cure",
    [
        ("too-many-arguments, for a kernel", "give kernel_one_ref one parameter for each input, output and scratch"),
        ("too-many-arguments", "an index map gets one index for each grid axis"),
        ("too-many-arguments, of a method", "self comes first"),
        ("too-many-arguments, of __init__", "check the parameters of __init__"),
        ("too-few-arguments, of __init__", "give n a default in __init__, n=..."),
        ("too-few-arguments, of pallas_call", "write pl.pallas_call(kernel, out_shape="),
        ("too-few-arguments, called too early", "write no brackets after add: pl.pallas_call(add, ...) calls it"),
        ("too-few-arguments, of an index map", "an index map gets one index for each grid axis"),
        ("arrays-to-pallas-call", "write pl.pallas_call(kernel, out_shape=...)(x, y)."),
    ],
)
def test_the_cure_is_for_whoever_was_called(failure, cure):
    assert cure in FAILURES[failure][0]().next


def loops_over_an_integer(x_ref, o_ref):
    for row in x_ref.shape[0]:
        o_ref[row] = x_ref[row]


def looks_up_a_dict(x_ref, o_ref):
    table = {}
    o_ref[...] = x_ref[...] * table[{}]


def loops_over_a_function(x_ref, o_ref):
    for one in copy:
        o_ref[...] = one


@pytest.mark.parametrize("kernel", [loops_over_an_integer, looks_up_a_dict, loops_over_a_function])
def test_a_slip_in_a_line_of_the_kernel_is_not_blamed_on_the_call(kernel):
    told = compiled(call(kernel))()
    assert told.name == "" and "look at line" in told.next and kernel.__name__ in told.next, told
