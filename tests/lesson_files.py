"""Where the parts of each lesson are, for the tests that every lesson must pass."""

import functools
import os
import pathlib
import types
from unittest import mock

import jupytext
import nbformat

from course_lib import errors
from course_lib.checks.exercise import lesson
from course_lib.checks.kinds import several

ROOT = pathlib.Path(__file__).resolve().parent.parent
LESSONS = [
    source.stem for source in sorted((ROOT / "notebooks/src").glob("[0-9]*.py")) if source.stem[:2] in errors.WRITTEN
]
TASKS = [task for stem in LESSONS for task in lesson(stem[:2]).exercises]


def source(kind: str, stem: str) -> str:
    """The text of a percent file: ``kind`` is notebooks/src, solutions/src or solutions/mutants."""
    return (ROOT / kind / f"{stem}.py").read_text()


@functools.cache
def code_cells(kind: str, stem: str) -> list:
    """The code cells of a percent file; none if there is no such file."""
    path = ROOT / kind / f"{stem}.py"
    return [c for c in jupytext.read(path).cells if c.cell_type == "code"] if path.exists() else []


@functools.cache
def built(folder: str, stem: str) -> list:
    """The cells of a built notebook, outputs included."""
    return nbformat.read(ROOT / folder / f"{stem}.ipynb", 4).cells


def stem_of(task) -> str:
    """The lesson that an exercise belongs to: "03_roofline"."""
    return next(stem for stem in LESSONS if stem[:2] == task.id[:2])


def questions(task) -> dict[str, object]:
    """What an exercise asks that has a proof: {name: Predict, Choose or Formula}, those of its parts too."""
    if task.kind == "several":
        return {
            f"{task.id} {name} {type(one).__name__}": one
            for name, both in task.asks.parts.items()
            for one in several.questions(both)
        }
    if task.kind == "compute":
        return {f"{task.id} {formula.name}": formula for formula in task.asks.results}
    return {task.id: task.asks} if hasattr(task.asks, "proof") else {}


def asking(question) -> types.SimpleNamespace:
    """A question of an exercise as an exercise of its own."""
    return types.SimpleNamespace(id="99.1", asks=question, defines="part")


def as_a_learner() -> mock._patch:
    """While this lasts a verdict is printed and not raised: nobody grades, and pytest does not compare outputs."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return mock.patch.dict(os.environ, kept, clear=True)
