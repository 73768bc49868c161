"""Make a kernel fail, or a cure work, and see what the learner is told."""

from unittest import mock

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import compat, compiler, errors
from course_lib.errors import table

Shape = jax.ShapeDtypeStruct
X = Shape((256, 512), jnp.float32)
V = Shape((4096,), jnp.float32)
INDICES = Shape((32,), jnp.int32)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
ROWS_OF_8 = ((8, 512), lambda i: (i, 0))  # a block and an index map that cut X into 32


def call(kernel, block=None, grid=(), index_map=None, **settings):
    """f(x) = pallas_call(kernel)(x), with one block spec for the input and the output."""
    spec = pl.BlockSpec(block, index_map) if block else pl.BlockSpec()
    settings = {"grid": grid, "in_specs": [spec], "out_specs": spec} | settings

    def f(x):
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(kernel, **{"out_shape": out} | settings)(x)

    return f


def computing(fn):
    """A kernel that writes fn(its whole input)."""

    def kernel(x_ref, o_ref):
        o_ref[...] = fn(x_ref[...])

    return kernel


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def compiled(fn, *args, chip="v5e", **limits):
    """What compile_tpu makes of fn: an explanation, or None. Without libtpu it can only refuse what does not lower."""

    def explain():
        try:
            return compiler.compile_tpu(fn, *(args or (X,)), chip=chip, simulate=False, **limits).error
        except compiler.Unavailable as why:
            if compiler.libtpu_version() is None:
                pytest.skip(str(why))
            raise

    return explain


def raised(fn, *args):
    """What plain Python, without a target or a simulator, makes of fn."""

    def explain():
        try:
            fn(*(jnp.ones(a.shape, a.dtype) for a in args))
        except Exception as error:
            return errors.explain(error)

    return explain


def simulated(fn, x=X, **params):
    """What the simulator, with these InterpretParams, makes of fn(ones)."""

    def explain():
        values = jnp.ones(x.shape, x.dtype)
        try:
            with pltpu.force_tpu_interpret_mode(compat.interpret_params(**params)):
                jax.block_until_ready(fn(values))
            if compat.races_found():  # JAX 0.11 prints; 0.12 raises
                return errors.explain("RACE DETECTED")
        except Exception as error:
            return errors.explain(error)
        finally:
            pltpu.reset_tpu_interpret_mode_state()

    return explain


def add(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def matmul(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] @ y_ref[...]


def of_two(kernel, out=X, **settings):
    """f(x, y) = pallas_call(kernel)(x, y)"""
    return lambda x, y: pl.pallas_call(kernel, out_shape=out, **settings)(x, y)


def prefetching(index_map):
    """f(indices, x): each grid step copies the block of x that index_map(i, indices_ref) names."""

    def f(indices, x):
        block = ROWS_OF_8[0]
        grid_spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(32,),
            in_specs=[pl.BlockSpec(block, index_map)],
            out_specs=pl.BlockSpec(block, lambda i, indices_ref: (i, 0)),
        )
        return pl.pallas_call(lambda indices_ref, x_ref, o_ref: copy(x_ref, o_ref), out_shape=x, grid_spec=grid_spec)(
            indices, x
        )

    return f


# Rows behind more special ones, which say more where they fit.
GENERAL = {
    "block-2d", "compiler-refused", "for-range", "gradient", "keyword", "misspelt", "number-in-kernel",
    "numpy-in-kernel", "old-name", "plain-interpreter", "read-outside", "returned-function", "store-shape",
    "too-few-arguments", "too-many-arguments", "traced-if",
}  # fmt: skip


def only_one_speaks(text, line, fitting=table._fitting):
    """What fits a failure: of all rows that are not general, one."""
    found = list(fitting(text, line))
    others = {row.name for row, _ in found[1:]} - GENERAL
    assert not others, f"{found[0][0].name} fits, and so do {others}: {text[:300]}"
    return found


def assert_explained(failure, provoke, says):
    """The failure gets its own row, the name up to the comma, which ``says`` this and has a cure.

    All other rows are silent, unless they are general ones.
    """
    with mock.patch.object(table, "_fitting", only_one_speaks):
        explanation = provoke()
    assert explanation is not None, "nothing failed"
    assert explanation.name == failure.split(",")[0], str(explanation)
    assert says in explanation.what, explanation.what
    assert explanation.next or explanation.name == "unreadable", "no cure"  # whose own words say what to do
    assert "?" not in str(explanation), "a group of the pattern found nothing"


def assert_compiles(provoke):
    error = provoke()
    assert error is None, str(error)
