"""Where the parts of each lesson are, for the tests that every lesson must pass."""

import copy
import functools
import os
import pathlib
import re
import types
from unittest import mock

import jupytext
import nbformat

from course_lib import checks, errors
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


def answers(stem: str) -> dict[str, str]:
    """Return {exercise: our answer}, without the marks ### BEGIN SOLUTION and ### END SOLUTION."""
    return {
        cell.metadata["answer"]: "\n".join(line for line in cell.source.split("\n") if line.lstrip()[:4] != "### ")
        for cell in code_cells("solutions/src", stem)
        if "answer" in cell.metadata
    }


@functools.cache
def mutants(stem: str) -> list:
    """Return a cell for each wrong answer of a lesson: its metadata are the header's, its source is the whole answer.

    A cell that holds nothing but comments is an edit of our answer. Raises ValueError, with the file and the name of
    the mutant, if the edit does not fit the answer.
    """
    ours = answers(stem)
    found = [copy.copy(cell) for cell in code_cells("solutions/mutants", stem) if "answer" in cell.metadata]
    for cell in found:
        if all(line.startswith("#") for line in cell.source.split("\n") if line):
            id, name = cell.metadata["answer"], cell.metadata["name"]
            try:
                cell.source = edited(ours.get(id, ""), cell.source)
            except ValueError as error:
                raise ValueError(f"solutions/mutants/{stem}.py, {id} {name!r}: {error}") from None
    return found


def edited(answer: str, edit: str) -> str:
    """Return ``answer`` after an edit: a diff in comments, with a blank line between places that are apart.

    ``# -`` takes a line out, ``# +`` puts one in, and two spaces after the # keep a line, to say where. Raises
    ValueError if the lines of a place are not in the answer exactly once, if the places are not in the order of the
    answer, or if the edit changes nothing.
    """
    lines, result, end = answer.split("\n"), [], 0
    for place in re.split(r"\n\n+", edit):
        signed = [line.removeprefix("# ").removeprefix("#") or " " for line in place.split("\n")]
        if strange := [line for line in signed if line[0] not in " -+"]:
            raise ValueError(f"a line of an edit begins with '# -', '# +' or '#  ', not with {'# ' + strange[0]!r}.")
        old = [line[1:] for line in signed if line[0] != "+"]
        at = [n for n in range(len(lines) - len(old) + 1) if lines[n : n + len(old)] == old]
        if len(at) != 1:
            raise ValueError(f"these lines must stand once in the answer, not {len(at)} times:\n" + "\n".join(old))
        if at[0] < end:
            raise ValueError("these lines overlap the place before, or stand above it:\n" + "\n".join(old))
        result += lines[end : at[0]] + [line[1:] for line in signed if line[0] != "-"]
        end = at[0] + len(old)
    result += lines[end:]
    if result == lines:
        raise ValueError("the edit changes nothing.")
    return "\n".join(result)


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


def span(stem, id):
    """Where the first cell of exercise ``id`` is among the code cells, and where its check is."""
    cells = [cell.metadata for cell in code_cells("solutions/src", stem)]
    of_this = re.compile(rf"{re.escape(id)}(-.*)?")  # given="01.2", or "01.2-look" where it has several
    first = next(n for n, cell in enumerate(cells) if of_this.fullmatch(cell.get("given") or cell.get("answer") or ""))
    return first, next(n for n, cell in enumerate(cells) if cell.get("check") == id)


@functools.cache
def names_before(stem, end):
    """What the cells before number ``end``, the first of an exercise, define with our answers; checks are left out."""
    cells = code_cells("solutions/src", stem)
    firsts = {span(stem, cell.metadata["check"])[0] for cell in cells if "check" in cell.metadata}
    begin = max((first for first in firsts if first < end), default=0)
    names = dict(names_before(stem, begin)) if begin else {"checks": checks}
    for cell in cells[begin:end]:
        if cell.source.strip() != "# FIRST CELL" and "check" not in cell.metadata:
            exec(cell.source, names)
    return names


def our_answer(task):
    """What our own answer to an exercise defines, run after the cells that it needs."""
    stem = stem_of(task)
    cells, (first, check) = code_cells("solutions/src", stem), span(stem, task.id)
    names = dict(names_before(stem, first))
    for cell in cells[first:check]:
        exec(cell.source, names)
    return names[task.judged or task.defines]
