"""Wrong numbers that are those of a known slip: the declaration says what was computed, and what to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib import judges
from course_lib.judges.tolerance import expected, right

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise


def found(task: Exercise, trial: judges.Trial) -> tuple[str, str] | None:
    """(what was computed, what to try) of the first of the exercise's slips whose numbers these are; None if none."""
    if not task.slips:
        return None
    try:
        got = trial.traced.run(True, trial.args)
    except Exception:  # it cannot be run, and the judges say why
        return None
    for computed, what, next in task.slips:
        wants = expected(computed, trial.args)
        same = len(got) == len(wants) and all(g.shape == w.value.shape for g, w in zip(got, wants, strict=True))
        if same and all(right(g, w).all() for g, w in zip(got, wants, strict=True)):
            return what, next
    return None
