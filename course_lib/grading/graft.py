"""The graft of a submission's answers into the course's own exercise notebook.

So the setup, the given cells and the checks are the course's, whatever the submission has done to them.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import pathlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_lib.checks.kinds.golf import Golf

EXERCISES = pathlib.Path(__file__).resolve().parents[2] / "exercises"

# The score comes from a freshly imported library, so an answer that patched the first one does not affect it.
_SCORE = """\
import importlib as _importlib, sys as _sys
_of_the_course = [_name for _name in _sys.modules if _name.partition(".")[0] == "course_lib"]
_changed = {{_name: _sys.modules.pop(_name) for _name in _of_the_course}}
try:
    _importlib.import_module("course_lib.checks.kinds.golf").announce("{id}", {answer})
finally:
    for _name in [_name for _name in _sys.modules if _name.partition(".")[0] == "course_lib"]:
        del _sys.modules[_name]
    _sys.modules.update(_changed)
"""

# Comments that nbval obeys: they skip a cell, let it fail, or have its output compared.
_NBVAL_MARK = re.compile(r"^(\s*#[#\s]*)((?:NBVAL|PYTEST)_[A-Z_]+\s*)$", re.M)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """One exercise of a notebook, as declared. ``answer`` and ``check`` are names of cells."""

    id: str  # "01.2"
    title: str
    kind: str
    points: int
    answer: str
    check: str
    golf: Golf | None = None

    @property
    def score(self) -> str:
        """The name of the cell in which the grader recomputes the score of a golf exercise."""
        return f"{self.answer}-score"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CourseNotebook:
    """One of the course's exercise notebooks: a dict of nbformat 4, and its exercises in order."""

    name: str  # "01_hello_kernel"
    notebook: dict
    tasks: tuple[Task, ...]

    @property
    def code_cells(self) -> list[str]:
        """The names of the code cells, in order."""
        return [c["id"] for c in self.notebook["cells"] if c["cell_type"] == "code"]

    @property
    def owners(self) -> dict[str, Task]:
        """A dict {name of a code cell: the last exercise whose answer is in it or before it}."""
        answers, owner, found = {task.answer: task for task in self.tasks}, None, {}
        for name in self.code_cells:
            owner = answers.get(name, owner)
            if owner is not None:
                found[name] = owner
        return found

    @property
    def uses_keras(self) -> bool:
        """Whether one of the course's own cells imports Keras."""
        return any(re.search(r"^import keras\b", self.source(name), re.M) for name in self.code_cells)

    def answered(self, submitted: dict[str, list[str]]) -> list[Task]:
        """Return the exercises whose answer cells a submission has changed."""
        given = {task.id: "\n".join(submitted.get(task.answer) or ()).strip() for task in self.tasks}
        return [task for task in self.tasks if given[task.id] not in ("", self.source(task.answer).strip())]

    def source(self, name: str) -> str:
        """Return the course's own text of a cell."""
        return "".join(next(c["source"] for c in self.notebook["cells"] if c["id"] == name))


@functools.cache
def course_notebooks() -> tuple[CourseNotebook, ...]:
    """Return every exercise notebook of the clone. Raise FileNotFoundError outside a clone."""
    paths = sorted(EXERCISES.glob("[0-9]*.ipynb"))
    if not paths:
        raise FileNotFoundError(f"there are no exercise notebooks in {EXERCISES}: grade from a clone of the course.")
    return tuple(_read(path) for path in paths)


def course_notebook(names) -> CourseNotebook | None:
    """Return the exercise notebook with most answers in ``names``; None if it shares no cell with any.

    ``names`` are those of cells, or {name: sources}. Where no answer decides, most cells of the same name do.
    """

    def shared(course: CourseNotebook) -> int:
        return sum((task.answer in names) + (task.check in names) for task in course.tasks)

    def fits(course: CourseNotebook) -> tuple[int, int]:
        return len(course.answered(names)) if isinstance(names, dict) else 0, shared(course)

    best = max(course_notebooks(), key=fits)
    return best if shared(best) else None


def other_answers(course: CourseNotebook, submitted: dict[str, list[str]]) -> str:
    """Return a sentence on the answers to other lessons, which nobody grades; "" if there are none."""
    others = [(other, other.answered(submitted)) for other in course_notebooks() if other.name != course.name]
    found = [f"{other.name} ({', '.join(task.id for task in tasks)})" for other, tasks in others if tasks]
    if not found:
        return ""
    return f"it also has answers to {', '.join(found)}, which were not graded: hand in a notebook for each lesson"


def graft(course: CourseNotebook, answers: dict[str, str]) -> dict:
    """Return a copy of the course's notebook with the text of the cells in ``answers`` replaced.

    nbval marks are disabled in it: the comments of an answer, and the tags of the course's own cells, because there is
    no stored output to compare with.
    """
    notebook = copy.deepcopy(course.notebook)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["source"] = unmarked(answers.get(cell["id"], "".join(cell["source"])))
            cell["metadata"].pop("tags", None)
    return notebook


def unmarked(source: str) -> str:
    """Turn the nbval marks in a cell's text into plain comments."""
    return _NBVAL_MARK.sub(r"\1(\2)", source)


def _read(path: pathlib.Path) -> CourseNotebook:
    # Imported here because it imports JAX, which a process that only runs a notebook does not need.
    from course_lib.checks.exercise import exercise

    notebook = json.loads(path.read_text())
    marks = [c["metadata"]["nbgrader"] for c in notebook["cells"] if "nbgrader" in c["metadata"]]
    tasks = []
    for name in (mark["grade_id"] for mark in marks if mark["solution"]):
        task = exercise(name.replace("-", "."))
        made = Task(
            id=task.id, title=task.title, kind=task.kind, points=task.points, answer=name, check=f"{name}-check",
            golf=task.golf,
        )  # fmt: skip
        tasks.append(made)
        if made.golf is not None:
            _add_score(notebook, made, task.judged or task.defines)
    return CourseNotebook(name=path.stem, notebook=notebook, tasks=tuple(tasks))


def _add_score(notebook: dict, task: Task, answer: str) -> None:
    """Insert the cell that counts a score after the cell that checks it."""
    place = next(n for n, cell in enumerate(notebook["cells"]) if cell["id"] == task.check)
    cell = copy.deepcopy(notebook["cells"][place])
    cell |= {"id": task.score, "source": _SCORE.format(id=task.id, answer=answer), "metadata": {}}
    notebook["cells"].insert(place + 1, cell)
