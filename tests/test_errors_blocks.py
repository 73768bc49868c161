"""Failures of blocks and specs, each provoked for real, and what a learner reads."""

import ast
import re

import jax
import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from provoke import ROWS_OF_8, SMEM, Shape, V, X, add, call, compiled, copy, of_two

from course_lib import compiler


def eight_rows_of_bytes():
    if not (compiler.libtpu_version() or "0.0.48").startswith("0.0.48"):
        pytest.skip("libtpu 0.0.50 takes such blocks")
    return compiled(call(copy, (8, 128), (128,), lambda i: (i, 0)), Shape((1024, 128), jnp.int8))()


def windows(block, step=8, back=0):
    """A kernel that takes the first 8 rows of windows which begin every ``step`` rows, ``back`` windows earlier."""

    def top(x_ref, o_ref):
        o_ref[...] = x_ref[0:8]

    return pl.pallas_call(
        top,
        out_shape=Shape((64, 512), jnp.float32),
        grid=(8,),
        in_specs=[pl.BlockSpec(block, lambda i: (*[0] * (len(block) - 2), step * jnp.maximum(i - back, 0), 0))],
        out_specs=pl.BlockSpec((8, 512), lambda i: (i, 0)),
    )


def piped(**of_the_output):
    """A copy by emit_pipeline, in rows of 8."""

    def kernel(x_hbm, o_hbm):
        pltpu.emit_pipeline(
            copy,
            grid=(32,),
            in_specs=[pl.BlockSpec(*ROWS_OF_8, pipeline_mode=pl.Buffered(3))],
            out_specs=[pl.BlockSpec(*ROWS_OF_8, **of_the_output)],
        )(x_hbm, o_hbm)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(kernel, out_shape=X, in_specs=[anywhere], out_specs=anywhere)


FAILURES = {
    "block-bytes": (eight_rows_of_bytes, "The number of rows in the block of input 0 does not suit its narrow dtype"),
    "block-2d": (
        compiled(call(copy, block=(12, 100), grid=(22, 6), index_map=lambda i, j: (i, j))),
        "The block (12, 100) of input 0 is not legal for an array of shape (256, 512)",
    ),
    "block-of-one-row": (
        compiled(jax.vmap(lambda row: pl.pallas_call(copy, out_shape=row)(row))),
        "The block (None, 512) of input 0 is one row, or one column, of an array of shape (256, 512)",
    ),
    "block-of-one-row, by hand": (
        compiled(call(copy, (None, 512), (256,), lambda i: (i, 0))),
        "jax.vmap makes one row a block, too.",
    ),
    "block-of-one-row, of many axes": (
        compiled(jax.vmap(jax.vmap(lambda row: pl.pallas_call(copy, out_shape=row)(row))), Shape((4, 5, 6), jnp.int32)),
        "The block (None, None, 6) of input 0",
    ),
    "block-1d": (
        compiled(call(copy, block=(100,), grid=(41,), index_map=lambda i: (i,)), V),
        "The block (100,) of input 0 is not legal for an array of shape (4096,)",
    ),
    "block-rank": (
        compiled(call(copy, block=(8,), grid=(32,), index_map=lambda i: (i,))),
        "The block (8,) of input 0 and its array, of shape (256, 512), differ in the number of axes.",
    ),
    "block-2d, of elements": (
        compiled(windows((pl.Element(10), pl.Element(512)))),
        "The block (10, 512) of input 0 is not legal for an array of shape (256, 512)",
    ),
    "element-mix": (
        compiled(windows((pl.Element(16), 512))),
        "One axis of a block is pl.Element, but another is not.",
    ),
    "element-unaligned": (
        compiled(windows((pl.Element(16), pl.Element(512)), step=3)),
        "The window of input 0 begins, on axis 0, at an element that the compiler cannot prove to be a multiple of 8.",
    ),
    "element-padding": (
        compiled(windows((pl.Element(16, padding=(8, 0)), pl.Element(512)))),
        "The windows of input 0 are padded before the array",
    ),
    "no-grid": (
        compiled(
            pl.pallas_call(
                copy,
                out_shape=X,
                in_specs=[pl.BlockSpec((8, 512), lambda: (0, 0))],
                out_specs=pl.BlockSpec((8, 512), lambda: (0, 0)),
            )
        ),
        "A BlockSpec cuts a block out of an array, but the call has no grid.",
    ),
    "scalar-input": (
        compiled(of_two(lambda x, s, o: o.__setitem__(..., x[...] * s[...])), X, 2.0),
        "The kernel's input 1 is a scalar",
    ),
    "old-spec-order": (
        compiled(call(copy, in_specs=[pl.BlockSpec(*ROWS_OF_8[::-1])], grid=(32,))),
        "A function is where the block shape should be.",
    ),
    "spec-structure": (
        compiled(of_two(add, in_specs=[pl.BlockSpec()]), X, X),
        "in_specs and inputs do not match: in_specs is a tuple of length 1 but inputs is a tuple of length 2.",
    ),
    "spec-structure, of outputs": (
        compiled(of_two(add, out_specs=[pl.BlockSpec()]), X, X),
        "out_specs and out_shape do not match: out_specs is a tuple but out_shape is a single one.",
    ),
    "in-specs-list": (compiled(call(copy, in_specs=pl.BlockSpec())), "in_specs is a single BlockSpec"),
    "not-a-block-spec": (
        compiled(call(copy, in_specs=[pltpu.VMEM])),
        "contains a MemorySpace where a BlockSpec should be",
    ),
    "not-a-block-spec, a buffer": (
        compiled(call(copy, in_specs=[pltpu.VMEM((8, 128), jnp.float32)])),
        "contains a MemoryRef where a BlockSpec should be",
    ),
    "buffered": (
        compiled(
            call(
                copy,
                grid=(32,),
                in_specs=[pl.BlockSpec(*ROWS_OF_8, pipeline_mode=pl.Buffered(3))],
                out_specs=pl.BlockSpec(*ROWS_OF_8),
            )
        ),
        "A BlockSpec asks for 3 buffers",
    ),
    "buffered-output": (
        compiled(piped(pipeline_mode=pl.Buffered(3))),
        "An output of emit_pipeline asks for more than two buffers.",
    ),
}
CURES = {
    "buffered-output": compiled(piped()),
    "element-mix": compiled(windows((pl.Element(16), pl.Element(512)))),
    "element-mix, beside a None": compiled(
        windows((None, pl.Element(16), pl.Element(512))), Shape((4, 256, 512), jnp.float32)
    ),
    "element-unaligned": compiled(windows((pl.Element(16), pl.Element(512)))),
    "element-padding": compiled(windows((pl.Element(16, padding=(0, 8)), pl.Element(512)), back=1)),
    "no-grid": compiled(
        pl.pallas_call(
            copy,
            out_shape=X,
            grid=(32,),
            in_specs=[pl.BlockSpec((8, 512), lambda i: (i, 0))],
            out_specs=pl.BlockSpec((8, 512), lambda i: (i, 0)),
        )
    ),
    "scalar-input": compiled(
        of_two(lambda x, s, o: o.__setitem__(..., x[...] * s[0]), in_specs=[pl.BlockSpec(), SMEM]),
        X,
        Shape((1,), jnp.float32),
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    if failure == "buffered-output" and jax.__version_info__ >= (0, 12):
        pytest.skip("JAX 0.12 gives an output of emit_pipeline as many buffers as it asks for")
    provoke.assert_explained(failure, *FAILURES[failure])


@pytest.mark.parametrize("cure", CURES)
def test_a_cure_compiles(cure):
    provoke.assert_compiles(CURES[cure])


def test_the_nearest_block_to_one_row_is_legal():
    assert FAILURES["block-of-one-row"][0]().next.endswith("Nearest legal: (8, 512). (lesson 04)")
    provoke.assert_compiles(compiled(call(copy, *ROWS_OF_8[:1], (32,), ROWS_OF_8[1])))
    assert FAILURES["block-of-one-row, of many axes"][0]().next.endswith("Nearest legal: (None, 5, 6). (lesson 04)")
    cube = Shape((4, 5, 6), jnp.int32)
    provoke.assert_compiles(compiled(call(copy, (None, 5, 6), (4,), lambda i: (i, 0, 0)), cube))


def test_nearest_block_is_legal():
    cure = FAILURES["block-2d"][0]().next
    assert "Nearest legal: (16, 128)." in cure
    block = re.search(r"Nearest legal: (.*)\. \(lesson", cure)[1]
    provoke.assert_compiles(compiled(call(copy, ast.literal_eval(block), (16, 4), lambda i, j: (i, j))))
