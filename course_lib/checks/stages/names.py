"""What the learner's answer cell calls the parts of a project, after the name of its function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise


def prediction(task: Exercise) -> str:
    """Return the name of the prediction: recurrence_prediction."""
    return f"{task.defines}_prediction"


def test(task: Exercise) -> str:
    """Return the name of the learner's test: test_recurrence."""
    return f"test_{task.defines}"


def table(task: Exercise) -> str:
    """Return the name of the tuned table: recurrence_table."""
    return f"{task.defines}_table"
