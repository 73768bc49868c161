"""Whether this machine works at all, in about a minute: what `make smoke` runs."""

import asyncio
import importlib
import pathlib
import pkgutil
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import nbformat
import numpy as np
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from nbclient import NotebookClient
from sample_kernels import VECTOR, add

import course_lib
from course_lib import checks, compiler, viz

ROOT = str(pathlib.Path(__file__).parent.parent)


def subtract(x, y):
    return add(x, -y)


@pytest.mark.parametrize("package", [package.name for package in pkgutil.iter_modules(course_lib.__path__)])
def test_every_package_can_be_imported(package):
    importlib.import_module(f"course_lib.{package}")


def test_a_kernel_runs_in_the_simulator():
    x, y = (jax.random.normal(jax.random.key(n), VECTOR.shape) for n in range(2))
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(detect_races=True)):
        np.testing.assert_array_equal(add(x, y), x + y)


@needs_libtpu
def test_the_compiler_accepts_a_kernel_and_refuses_another():
    report = compiler.compile_tpu(add, VECTOR, VECTOR)
    assert report.ok and report.cycles > 0, str(report)

    def too_large(x):
        return pl.pallas_call(lambda x_ref, o_ref: None, out_shape=x)(x)

    refused = compiler.compile_tpu(too_large, jax.ShapeDtypeStruct((8192, 8192), jnp.float32))
    assert not refused.ok and "VMEM" in str(refused.error)


@pytest.mark.parametrize("answer, outcome", [(None, "not attempted"), (subtract, "not yet"), (add, "passed")])
def test_a_check_has_three_outcomes(answer, outcome, monkeypatch):
    whole = answer and (lambda x, y: answer(x, y, block=x.size))  # one exercise's vectors have 1000 elements
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # under which a check raises what it has to say
    with checks.rehearsal():
        assert checks.check("01.1", whole).outcome == outcome


def test_a_widget_has_a_still():
    data, _ = viz.grid_player(add, VECTOR, VECTOR)._repr_mimebundle_()
    assert ElementTree.fromstring(data["image/svg+xml"]).tag.endswith("svg")


def test_a_cell_of_a_notebook_runs_in_a_kernel_of_its_own():
    cell = nbformat.v4.new_code_cell("from course_lib import chips\nprint(chips.chip('v5e').name)")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    asyncio.run(NotebookClient(notebook, timeout=60, resources={"metadata": {"path": ROOT}}).async_execute())
    assert notebook.cells[0].outputs[0].text == "v5e\n"
