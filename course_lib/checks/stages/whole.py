"""All stages of a project at once, for a grader that has all parts of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.checks.kinds import project
from course_lib.checks.result import Result, not_yet
from course_lib.checks.stages import names, own_test, prediction, tuned_table

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise


def names_of(task: Exercise) -> tuple[str, str, str]:
    """Return what the answer calls its prediction, its test and its table, in the order that ``result`` wants."""
    return names.prediction(task), names.test(task), names.table(task)


def result(task: Exercise, defined: object, predicted: object, test: object, table: object) -> Result:
    """Pass if the prediction can be read, the kernel passes, the test finds the planted bugs and the table compiles."""
    first = prediction.result(task, predicted)
    said = project.of_kernel(task, defined)
    if not said.passed:
        return said if first.passed or said.headline != project.FIRST else _left(task, said, first)
    for stage in (own_test.result(task, defined, test), tuned_table.result(task, defined, table)):
        if not stage.passed:
            return _left(task, said, stage)
    return said


def _left(task: Exercise, said: Result, stage: Result) -> Result:
    """Return the verdict on a project of which one stage is missing or wrong, in the words of that stage."""
    headline = said.headline if said.headline == project.FIRST else project.LEFT
    first = f"{stage.id} {stage.outcome}" + (f": {stage.headline}" if stage.headline else ".")
    message = "\n".join(filter(None, (first, stage.message)))
    return not_yet(task.id, headline, message, stage.next, score=said.score, report=said.report)
