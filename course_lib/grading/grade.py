"""The grade of one notebook: read it, graft its answers, run them, and say one thing about each exercise."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import pathlib
import platform
import time
from collections.abc import Callable

import course_lib
from course_lib.grading import lost_marks, submission
from course_lib.grading.graft import CourseNotebook, course_notebook, graft, other_answers
from course_lib.grading.rows import PASSED, Row, clean, rows
from course_lib.grading.run import Ran, run

_LOST = {
    "time": "it ran for more than {seconds:g} s and was stopped.",
    "died": "the Python process ended while this ran (os._exit, or out of memory).",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grade:
    """The grade of one notebook: a row for each exercise, or ``error``, which says why there is none."""

    file: str
    lesson: str = ""  # the course's exercise notebook that received its answers: "01_hello_kernel"
    rows: tuple[Row, ...] = ()
    error: str = ""
    note: str = ""  # what is odd about the whole notebook, such as its name
    seconds: float = 0.0  # how long grading took

    @property
    def points(self) -> int:
        return sum(row.points for row in self.rows)

    @property
    def max_points(self) -> int:
        return sum(row.max_points for row in self.rows)

    @property
    def percent(self) -> float | None:
        """The weighted points as a percentage of all weighted points there are.

        It is rounded to one decimal; None if nothing counts.
        """
        possible = sum(row.weight * row.max_points for row in self.rows)
        if not possible:
            return None
        return round(100 * sum(row.weight * row.points for row in self.rows) / possible, 1)

    @property
    def result(self) -> str:
        """The points and the percentage in words: 3 of 6 points, 50%."""
        if self.percent is None:
            return f"{self.points} of {self.max_points} points"
        weighted = " weighted" if any(row.weight != 1 for row in self.rows) else ""
        return f"{self.points} of {self.max_points} points, {percentage(self.percent)}{weighted}"

    def noted(self, note: str) -> Grade:
        """Return the grade with another note beside those that it has."""
        notes = [each for each in self.note.split("; ") if each]
        return dataclasses.replace(self, note="; ".join(notes if not note or note in notes else [*notes, note]))

    @property
    def passed(self) -> bool:
        """Whether every exercise with points was passed; an explanation has none, because nobody judges it."""
        return bool(self.rows) and all(row.outcome == PASSED for row in self.rows if row.max_points)


def grade(
    path: pathlib.Path,
    *,
    name: str = "",
    cell_timeout: float = 60.0,
    weights: dict[str, float] | None = None,
    rows_of: Callable[[CourseNotebook, dict, float], list[Row]] | None = None,
) -> Grade:
    """Grade the notebook at ``path``; the grade uses ``name``, or the file's name without it.

    ``weights`` is {id: weight}; a missing exercise has weight 1. ``rows_of`` grades the answers, for example in boxes
    (``Grader.rows``). Without it they run in processes of their own, as the calling user. Whatever is wrong with the
    notebook is in the grade; raises FileNotFoundError only if the course's own exercise notebooks are missing.
    """
    started, name = time.monotonic(), clean(name or path.name)
    try:
        submitted = submission.read(path)
    except submission.Unreadable as error:
        return Grade(file=name, error=clean(str(error)))
    course = course_notebook(submitted)
    if course is None:
        submitted = lost_marks.found(submitted)
        course = course_notebook(submitted)
    if course is None:
        return Grade(
            file=name, error="it has no exercise of this course: no cell is marked as one, and none checks one."
        )
    if course.uses_keras and importlib.util.find_spec("keras") is None:  # else every exercise would fail, for our sake
        return Grade(file=name, error="its lesson uses Keras, which is not installed here. Try pip install keras.")
    submitted = lost_marks.restored(course, submitted)
    graded = (rows_of or _graded)(course, submitted, cell_timeout)
    weighted = tuple(dataclasses.replace(row, weight=(weights or {}).get(row.id, 1.0)) for row in graded)
    note = clean(other_answers(course, submitted))
    return Grade(file=name, lesson=course.name, rows=weighted, note=note, seconds=time.monotonic() - started)


def _graded(course: CourseNotebook, submitted: dict, cell_timeout: float) -> list[Row]:
    """Return the rows. Remove an exercise that ends the kernel, and run the rest again."""
    given = {task.answer: submitted.get(task.answer) for task in course.tasks}
    answers = {name: "\n\n".join(sources) for name, sources in given.items() if sources}
    errors: dict[str, str] = {}
    while True:
        notebook = graft(course, answers)
        ran = run(notebook, cell_timeout=cell_timeout, time_limit=60 + 10 * cell_timeout)
        if problem := _broken(course, ran):
            errors = {task.id: problem for task in course.tasks}
            return rows(course, submitted, ran, errors)
        cell, sentence = _lost(course, ran, cell_timeout)
        if cell is None:
            return rows(course, submitted, ran, errors)
        task = course.owners[cell]
        errors.setdefault(task.id, sentence)
        if answers.pop(task.answer, None) is None:  # it is already removed, so the course's own cell ends the kernel
            return rows(course, submitted, ran, errors)


def _lost(course: CourseNotebook, ran: Ran, cell_timeout: float) -> tuple[str | None, str]:
    """Return the cell in which the kernel was lost, and a sentence; None if it was not."""
    for cell, record in ran.cells.items():
        if record["lost"]:
            return cell, _LOST[record["lost"]].format(seconds=cell_timeout)
    if not ran.in_time and (cell := _unfinished(course, ran)):
        return cell, "the whole notebook took too long, and was stopped while this ran."
    return None, ""


def _broken(course: CourseNotebook, ran: Ran) -> str:
    """Return why the course's own cells before the first exercise do not run here; "" if they do."""
    for cell in course.code_cells:
        if cell in course.owners:
            return ""
        record = ran.cells.get(cell)
        if record is None:
            return f"the course's own cell {cell} was not run. {clean(ran.log.strip()[-200:])}"
        if not record["ok"]:
            why = f"{record['ename']}: {record['evalue']}" if record["ename"] else record["problem"]
            return f"the course's own cell {cell} does not run here. {clean(why)}"
    return ""


def _unfinished(course: CourseNotebook, ran: Ran) -> str | None:
    return next((name for name in course.code_cells if name not in ran.cells), None)


def percentage(value: float | None) -> str:
    """Return a percentage as text, such as 66.7%; "" for None."""
    return "" if value is None else f"{value:g}%"


def versions() -> dict[str, str]:
    """Return the versions that a grade depends on."""
    found = {"python": platform.python_version(), "course_lib": course_lib.__version__}
    for package in ("jax", "libtpu", "nbval"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # libtpu, on macOS
            found[package] = importlib.metadata.version(package)
    return found
