"""Failures of names, each provoked for real, and what a learner reads."""

import jax.numpy as jnp
import provoke
import pytest
from jax.experimental import pallas as pl
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
    "renamed": (
        raised(lambda: pltpu.TPUCompilerParams),
        "pltpu.TPUCompilerParams is an old name. What does its work now is pltpu.CompilerParams.",
    ),
    "misspelt": (raised(lambda: pl.BlokSpec), "There is no pl.BlokSpec, but there is pl.BlockSpec."),
    "misspelt, in another module": (raised(lambda: pl.VMEM), "There is no pl.VMEM, but there is pltpu.VMEM."),
    "misspelt, in jax.numpy": (raised(lambda: jnp.softmax), "There is no jnp.softmax, but there is jax.nn.softmax."),
    "old-name": (compiled(call(kernel_old_name)), "That name is gone from Pallas"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_is_explained(failure):
    provoke.assert_explained(failure, *FAILURES[failure])


def test_cures_name_what_there_is():
    assert FAILURES["keyword"][0]().next == "write out_type=."
    assert FAILURES["misspelt"][0]().next == "write pl.BlockSpec."
    assert FAILURES["undefined"][0]().next == "write x_ref, if that is what you mean."


def test_new_names_exist():
    modules = {"pl": pl, "pltpu": pltpu, "jnp": jnp}
    for old, new in names.RENAMED.items():
        module, name = new.split(".")
        assert hasattr(modules[module], name), new
        assert old not in dir(pl) + dir(pltpu), old
