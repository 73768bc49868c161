"""``course_lib.testing``: the judges in somebody else's tests, as a pytest plugin."""

import dataclasses
import json
import pathlib
import subprocess
import sys
import tomllib
import types

import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from sample_kernels import add

from course_lib import compiler, judges, pytest_plugin
from course_lib.testing import Costs, KeptCosts, KernelRefused, assert_kernel

pytest_plugins = ["pytester"]

X = jnp.arange(1024.0)
PLUGIN = "course_lib.pytest_plugin"  # that pytest finds by itself where course_lib is installed

PROJECT = {
    "kernels.py": """
import jax
from jax.experimental import pallas as pl

ROWS = 64

def double(x):
    def double_kernel(x_ref, o_ref):
        o_ref[...] = 2 * x_ref[...]
    spec = pl.BlockSpec((ROWS, 128), lambda i: (i, 0))
    return pl.pallas_call(double_kernel, out_shape=x, grid=(256 // ROWS,), in_specs=[spec], out_specs=spec)(x)
""",
    "test_kernels.py": """
import jax, jax.numpy as jnp, pytest
from course_lib.testing import assert_kernel
from kernels import double

@pytest.mark.parametrize("dtype", [jnp.float32])
def test_double(dtype, kernel_costs):
    x = jax.ShapeDtypeStruct((256, 128), dtype)
    assert_kernel(double, lambda x: x + x, x, costs=kernel_costs)
""",
}


@needs_libtpu
def test_a_right_kernel_returns_its_report():
    report = assert_kernel(add, jnp.add, X, X, budget=judges.Budget(spills=0))
    assert isinstance(report, compiler.Report) and report.ok and report.cycles


def test_a_wrong_one_fails_with_what_the_judges_said():
    with pytest.raises(
        KernelRefused, match=r"add is refused\.\nnumbers: refused\. The output at \[1\] is 2; it"
    ) as refused:
        assert_kernel(add, lambda x, y: x + 2 * y, X, X)
    assert [verdict.passed for verdict in refused.value.verdicts] == [False]
    with pytest.raises(AssertionError, match="budget: refused. It moves 12 KiB"):
        assert_kernel(add, jnp.add, X, X, budget=judges.Budget(hbm_bytes=8000))


def test_without_a_compiler_it_warns(monkeypatch):
    monkeypatch.setattr(compiler.tpu, "libtpu_version", lambda: None)
    with pytest.warns(UserWarning, match="add: compiler: skipped"):
        assert assert_kernel(add, jnp.add, X, X) is None


# What was kept

COSTS = Costs(chip="v5e", cycles=1000, hbm_bytes=8192, vmem_bytes=4096, spills=0, versions="jax 1, libtpu 1")


def changed(**changes):
    return dataclasses.replace(COSTS, **changes)


@pytest.fixture
def kept(tmp_path):
    """What is asked with these costs, after COSTS were kept."""
    file = tmp_path / "kernel_costs.json"
    KeptCosts(file, "test_it", update=True).complaint(COSTS)
    return lambda costs, name="test_it": KeptCosts(file, name).complaint(costs)


@pytest.mark.parametrize(
    "costs, said",
    [
        (COSTS, ""),
        (changed(cycles=1010, hbm_bytes=4096), ""),
        (changed(cycles=1030), "cycles, predicted: 1,030, but 1,000 was recorded (+3.0 %)"),
        (changed(hbm_bytes=8704), "HBM traffic: 8.5 KiB, but 8 KiB was recorded (+6.2 %)"),
        (changed(vmem_bytes=8192), "VMEM: 8 KiB, but 4 KiB was recorded (+100.0 %)"),
        (changed(spills=1), "spills: 1, but 0 was recorded"),
        (changed(cycles=None), ""),
        (changed(chip="v6e"), "was recorded for a v5e, but this is for a v6e"),
    ],
)
def test_what_costs_more_is_refused(kept, costs, said):
    found = kept(costs)
    assert said in found and bool(said) == bool(found)
    assert ("kernel-costs=update" in found) == bool(said)


def test_another_version_is_named_and_what_is_not_kept_is_refused(kept):
    said = kept(changed(cycles=2000, versions="jax 1, libtpu 2"))
    assert "Recorded with jax 1, libtpu 1; this is jax 1, libtpu 2." in said
    assert "has no entry for 'test_other'" in kept(COSTS, "test_other")


def test_several_kernels_of_one_test_are_numbered(tmp_path):
    file = tmp_path / "kernel_costs.json"
    first = KeptCosts(file, "test_it", update=True)
    assert not first.complaint(COSTS) and not first.complaint(changed(cycles=5))
    assert list(json.loads(file.read_text())) == ["test_it", "test_it #2"]
    again = KeptCosts(file, "test_it")
    assert not again.complaint(COSTS) and "cycles" in again.complaint(COSTS)


def test_a_damaged_file_is_named(tmp_path):
    file = tmp_path / "kernel_costs.json"
    for content, said in (
        ("{", "is not JSON"),
        ("[]", "must hold a JSON object"),
        ('{"t": {"x": 1}}', "does not hold costs"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=said):
            KeptCosts(file, "t").complaint(COSTS)


# A project of two files


def test_pytest_finds_the_plugin_where_course_lib_is_installed():
    project = tomllib.loads((pathlib.Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"course_lib": PLUGIN}


def test_the_plugin_loads_nothing_of_jax():
    """It is imported at every start of pytest."""
    code = f"import sys, {PLUGIN}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@needs_libtpu
def test_a_project_keeps_its_costs_and_a_slower_kernel_breaks_its_tests(pytester, monkeypatch):
    for name, content in PROJECT.items():
        (pytester.path / name).write_text(content)
    options = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", PLUGIN)

    def ran(*more):
        sys.modules.pop("kernels", None)
        return pytester.runpytest_inprocess(*options, *more)

    first = ran()
    first.assert_outcomes(failed=1)
    first.stdout.fnmatch_lines(["*has no entry for 'test_kernels.py::test_double?float32?'*"])
    ran("--kernel-costs=update").assert_outcomes(passed=1)
    ran().assert_outcomes(passed=1)

    kept = json.loads((pytester.path / "kernel_costs.json").read_text())
    (name,) = kept
    assert kept[name]["hbm_bytes"] == 2 * 256 * 128 * 4 and kept[name]["chip"] == "v5e"

    (pytester.path / "kernels.py").write_text(PROJECT["kernels.py"].replace("ROWS = 64", "ROWS = 8"))
    slower = ran()
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(
        ["*KernelRefused: double costs more than it did.", "*cycles, predicted: *was recorded (+*"]
    )

    kept[name]["cycles"] *= 9
    (pytester.path / "kernel_costs.json").write_text(json.dumps(kept))
    cheaper = ran()
    cheaper.assert_outcomes(passed=1)
    cheaper.stdout.fnmatch_lines(["Cheaper than recorded: test_kernels.py::test_double?float32?."])


def test_costs_are_not_written_by_several_processes():
    """pytest-xdist gives the configuration of each of its processes a ``workerinput``."""
    update = types.SimpleNamespace(getoption=lambda name: "update", workerinput={})
    with pytest.raises(pytest.UsageError, match="run it without -n"):
        pytest_plugin.pytest_configure(update)
    pytest_plugin.pytest_configure(types.SimpleNamespace(getoption=lambda name: "update"))
