"""The stages of a project besides its check: a prediction, the learner's own test, a table of blocks."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from course_lib.checks.checking import show
from course_lib.checks.exercise import Exercise, exercise, exercises
from course_lib.checks.help import next_hint
from course_lib.checks.result import NOT_YET, Result
from course_lib.checks.stages import own_test, prediction, tuned_table


def predict(id: str, answer: object) -> Result:
    """Keep what you predict for project ``id``: a time and what will bind, as in ("12 us", "HBM").

    The last prediction before the first result counts. Raises ValueError for an id that is no project.
    """
    return _shown(id, prediction.result(_project(id), answer))


def planted(id: str, fn: object, test: object) -> Result:
    """Plant bugs in your kernel, one at a time, and say which of them your ``test`` misses.

    ``test`` is called with a function in the place of ``fn``, and fails by raising, or by returning False. Raises
    ValueError for an id that is no project.
    """
    return _shown(id, own_test.result(_project(id), fn, test))


def tuned(id: str, fn: object, table: object) -> Result:
    """Compile ``fn`` with the blocks of your table, {(chip, shape of the first argument): {keyword: block}}.

    Raises ValueError for an id that is no project.
    """
    return _shown(id, tuned_table.result(_project(id), fn, table))


class Times(NamedTuple):
    """What a project of the course is compared with, for the scored arguments; None: not known."""

    id: str
    function: str
    ideal: float  # seconds
    ideal_bytes: int  # of every array, once
    xla: float | None  # seconds
    xla_by: str  # whose figure that is
    xla_bytes: int | None  # that XLA's program moves between HBM and the chip


def project_times() -> list[Times]:
    """Return what each project of the course is compared with, in order."""
    found = [(task, task.project) for task in exercises().values() if task.project is not None]
    return [
        Times(
            task.id,
            task.defines,
            of.ideal.seconds(task.chips[0]),
            of.ideal.hbm_bytes,
            of.xla_s,
            of.xla_by,
            of.xla_bytes,
        )
        for task, of in found
    ]


def _project(id: str) -> Exercise:
    task = exercise(id)
    if task.project is None:
        there = ", ".join(each.id for each in exercises().values() if each.project is not None)
        raise ValueError(f"{id} is no project. The projects are {there or 'not written yet'}.")
    return task


def _shown(id: str, said: Result) -> Result:
    """Show the result of a stage. It raises nothing under a grader: what counts is the check, which asks for all."""
    if said.outcome == NOT_YET:
        said = dataclasses.replace(said, hint=next_hint(id))
    show(said)
    return said
