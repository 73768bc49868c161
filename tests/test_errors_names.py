"""Failures of names, each provoked for real, and what a learner reads."""

import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu
from provoke import X, call, compiled, copy, raised

from course_lib.errors.rows import names


def kernel_old_name(x_ref, o_ref):
    o_ref[...] = pl.load(x_ref, ...)


def core_mesh():
    mesh = getattr(pltpu, "TensorCoreMesh", None) or pltpu.create_tensorcore_mesh
    return mesh(axis_name="core", num_cores=1)


def kernel_misspelt(x_ref, o_ref):
    o_ref[...] = x_reff[...]  # noqa: F821


def on_a_gpu(**how):
    return raised(lambda: plgpu.kernel(lambda o_ref: o_ref.__setitem__(..., 0.0), **how)())


FAILURES = {
    "undefined": (compiled(call(kernel_misspelt)), "The name x_reff is not defined."),
    "keyword": (
        compiled(lambda x: pl.kernel(copy, out_shape=x, mesh=core_mesh())(x)),
        "pl.kernel has no parameter out_shape.",
    ),
    "keyword, of a class": (
        raised(lambda: pltpu.CompilerParams(dimension_semantic=("parallel",))),
        "pltpu.CompilerParams has no parameter dimension_semantic.",
    ),
    "keyword, of a kernel": (
        raised(lambda x: call(copy, interpret=True)(y=x), X),
        "f has no parameter y.",
    ),
    "keyword, of a GPU's kernel": (on_a_gpu(out_shape=X), "plgpu.kernel has no parameter out_shape."),
    "keyword, the backend": (on_a_gpu(out_type=X, backend="mosaic_gpu"), "plgpu.kernel has no parameter backend."),
    "keyword, the backend of pallas_call": (
        raised(lambda: pl.pallas_call(copy, out_shape=X, backend="triton")),
        "pl.pallas_call has no parameter backend.",
    ),
    "keyword, of the other function": (
        raised(lambda: pl.pallas_call(copy, out_type=X)),
        "pl.pallas_call has no parameter out_type.",
    ),
    "renamed": (
        raised(lambda: pltpu.TPUCompilerParams),
        "pltpu.TPUCompilerParams is an old name; pltpu.CompilerParams has replaced it.",
    ),
    "misspelt": (raised(lambda: pl.BlokSpec), "pl.BlokSpec does not exist, but pl.BlockSpec does."),
    "misspelt, in another module": (raised(lambda: pl.VMEM), "pl.VMEM does not exist, but pltpu.VMEM does."),
    "misspelt, in jax.numpy": (raised(lambda: jnp.softmax), "jnp.softmax does not exist, but jax.nn.softmax does."),
    "old-name": (compiled(call(kernel_old_name)), "That name is gone from Pallas"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_cures_name_what_there_is():
    assert FAILURES["keyword"][0]().next == "write out_type=."
    assert FAILURES["keyword, of a GPU's kernel"][0]().next == "write out_type=."
    assert FAILURES["keyword, of the other function"][0]().next == "write out_shape=."
    assert "uses Triton, and plgpu.kernel uses Mosaic GPU" in FAILURES["keyword, the backend"][0]().next
    assert FAILURES["misspelt"][0]().next == "write pl.BlockSpec."
    assert FAILURES["undefined"][0]().next == "write x_ref, if that is what you meant."


def test_new_names_exist():
    modules = {"pl": pl, "pltpu": pltpu, "jnp": jnp}
    for old, new in names.RENAMED.items():
        module, name = new.split(".")
        assert hasattr(modules[module], name), new
        assert old not in dir(pl) + dir(pltpu), old


def test_a_function_of_ones_own_keeps_its_name():
    def layer(x):
        return x

    told = raised(lambda: layer(X, backend="triton"))()
    assert told.what.endswith("layer has no parameter backend.") and "Triton" not in told.next
