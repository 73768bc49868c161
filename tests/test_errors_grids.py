"""Failures of grids, each provoked for real, and what a learner reads."""

import jax
import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import ROWS_OF_8, Shape, X, call, compiled, copy, raised, simulated


def with_semantics(*words):
    return call(
        copy, ROWS_OF_8[0], (32,), ROWS_OF_8[1], compiler_params=pltpu.CompilerParams(dimension_semantics=words)
    )


def of_a_program_outside(x):
    return call(copy)(x) * pl.program_id(0)


def block_is_an_argument(x, rows=8):
    spec = pl.BlockSpec((rows, 512), lambda i: (i, 0))
    return pl.pallas_call(copy, out_shape=x, grid=(256 // 8,), in_specs=[spec], out_specs=spec)(x)


FAILURES = {
    "not-an-integer": (compiled(call(copy, *ROWS_OF_8[:1], (256 / 8,))), "A size is not an integer: (32.0,)."),
    "not-an-integer, in a shape": (
        compiled(lambda x: pl.pallas_call(copy, out_shape=Shape((512 / 2, 512), x.dtype))(x)),
        "A size is not an integer: (256.0, 512).",
    ),
    "grid-float": (compiled(call(copy, ROWS_OF_8[0], 256 / 8, ROWS_OF_8[1])), "The grid is a float."),
    "grid-negative": (compiled(call(copy, ROWS_OF_8[0], (-1,), ROWS_OF_8[1])), "A size of the grid is negative."),
    "size-from-argument": (
        raised(jax.jit(block_is_an_argument), X, Shape((), jnp.int32)),
        "A block or a shape depends on an argument of a jitted function.",
    ),
    "size-from-argument, in a shape": (
        raised(jax.jit(lambda n: jnp.zeros(n)), Shape((), jnp.int32)),
        "A block or a shape depends on an argument of a jitted function.",
    ),
    "grid-axis": (
        compiled(call(lambda x, o: o.__setitem__(..., x[...] * pl.program_id(1)), *ROWS_OF_8[:1], (32,), ROWS_OF_8[1])),
        "The kernel asks for its index on grid axis 1, but the grid is (32,).",
    ),
    "program-id-outside": (compiled(of_a_program_outside), "pl.program_id was called where no grid step runs"),
    "program-id-outside, in an index map": (
        compiled(call(copy, (8, 512), (32,), lambda i: (pl.program_id(0), 0))),
        "pl.program_id was called where no grid step runs",
    ),
    "semantics-length": (
        compiled(with_semantics("parallel", "arbitrary")),
        "dimension_semantics and the grid differ in length: 2 and 1.",
    ),
    "unequal-lengths": (
        simulated(with_semantics("parallel", "arbitrary")),
        "that must have the same length differ: (1, 2).",
    ),
    "semantics-word": (
        compiled(with_semantics("paralel")),
        'dimension_semantics contains "paralel", but the compiler knows only parallel, arbitrary,',
    ),
    "core-parallel": (
        compiled(with_semantics("core_parallel"), chip="v5p"),
        'Grid axis 0 is marked "core_parallel" and has 32 steps, but the chip has 2 active cores.',
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_a_float_that_the_learner_subscripts_is_no_grid():
    scale = 2.0

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * scale[0]

    error = compiled(call(kernel))()
    assert error.name == "" and error.what == "TypeError: 'float' object is not subscriptable"
