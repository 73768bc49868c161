"""What pyproject.toml promises: what course_lib imports is declared, Keras is optional, the commands start."""

import ast
import importlib
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import course_lib
from course_lib.grading.grade import grade

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Packages that a declared one always brings: {what is imported: what is declared}.
BROUGHT = {"jaxlib": "jax", "ml_dtypes": "jax", "traitlets": "anywidget", "IPython": "anywidget", "zmq": "nbval"}


def names(requirements: list[str]) -> set[str]:
    """The packages that requirements such as "jax[cuda13]>=0.11 ; ..." name."""
    return {"".join(c if c.isalnum() or c in "-_" else " " for c in text).split()[0] for text in requirements}


def imported() -> dict[str, pathlib.Path]:
    """{package that is neither ours nor Python's: a file of course_lib that imports it}."""
    found = {}
    for file in sorted((ROOT / "course_lib").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) else []
            found |= {module.split(".")[0]: file for module in modules}
    return {name: file for name, file in found.items() if name not in {*sys.stdlib_module_names, "course_lib"}}


def test_every_package_that_is_imported_is_declared():
    declared = names(PROJECT["dependencies"]).union(*map(names, PROJECT["optional-dependencies"].values()))
    found = imported()
    assert {"jax", "keras", "matplotlib"} <= found.keys()
    assert {name: file for name, file in found.items() if BROUGHT.get(name, name) not in declared} == {}


def test_everything_but_the_frameworks_imports_without_keras():
    code = """
import importlib, pkgutil, sys
sys.modules["keras"] = None  # as where it is not installed
import course_lib
for module in pkgutil.walk_packages(course_lib.__path__, "course_lib."):
    if not module.name.startswith("course_lib.frameworks."):
        importlib.import_module(module.name)
"""
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr


def test_without_pytorch_its_module_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "course_lib.frameworks.torch_tensors", raising=False)
    with pytest.raises(ImportError, match="frameworks.torch: PyTorch is not installed. Try pip install torch"):
        importlib.import_module("course_lib.frameworks.torch_tensors")


@pytest.mark.parametrize("stem, uses_keras", [("01_hello_kernel", True), ("02_the_machine", False)])
def test_without_keras_only_the_lessons_that_use_it_are_not_graded(monkeypatch, stem, uses_keras):
    """Their cells would fail in this grader for every student, and cost each of them all marks."""
    monkeypatch.setitem(sys.modules, "keras", None)
    graded = grade(ROOT / f"exercises/{stem}.ipynb", rows_of=lambda course, submitted, seconds: [])
    said = "its lesson uses Keras, which is not installed here. Try pip install keras."
    assert graded.error == (said if uses_keras else "")


@pytest.mark.parametrize("name", PROJECT["scripts"])
def test_a_command_is_called_in_its_help_what_was_typed(name, capsys, monkeypatch):
    module, _, function = PROJECT["scripts"][name].partition(":")
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        getattr(importlib.import_module(module), function)()
    assert not ended.value.code and capsys.readouterr().out.startswith(f"usage: {name} [")
    package = module.removesuffix(".__main__")
    out = subprocess.run([sys.executable, "-m", package, "--help"], cwd=ROOT, capture_output=True, text=True)
    typed = {"course_lib.grading": "make grade"}.get(package, f"python -m {package}")
    assert out.stdout.startswith(f"usage: {typed} [")


def test_the_version_stands_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in PROJECT and PROJECT["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "course_lib.__version__"}


def test_the_changelog_tells_of_this_version_and_of_the_jax_versions_that_are_tested():
    pins = [(ROOT / f"requirements{lane}.txt").read_text() for lane in ("", "-jax012")]
    first, second = (re.search(r"^jax==(.*)$", text, re.MULTILINE)[1] for text in pins)
    heading = re.search(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert heading.startswith(f"## {course_lib.__version__} (") and heading.endswith(f" for JAX {first} and {second}")
