"""The kind "explain": the learner answers in words, compares with our answer and assesses the result."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from course_lib.checks import record
from course_lib.checks.result import Result, is_empty, not_attempted, not_yet, passed

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

ASSESSMENTS = ("yes", "partly", "no")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explain:
    """Our answer (``model``) and what a good one mentions (``look_for``); both are shown after ``words`` words."""

    model: str
    look_for: tuple[str, ...]
    words: int = 12  # distinct words

    def __post_init__(self) -> None:
        if not 3 <= self.words <= 60:
            raise ValueError(f"words is {self.words}; it may be 3 to 60.")
        if isinstance(self.look_for, str) or not self.look_for:
            raise ValueError(f"look_for is {self.look_for!r}; it should be a tuple of what a good answer mentions.")


def result(task: Exercise, answer: object) -> Result:
    """Pass once there are enough words and the learner has called them right, with ``checks.assess``."""
    asked: Explain = task.asks
    if is_empty(answer):
        return not_attempted(task.id, f'write {task.defines} = """two or three sentences of yours"""')
    if not isinstance(answer, str):
        return not_yet(
            task.id, "it is not text.", f"{task.defines} is {answer!r:.60}.", 'write sentences between """ and """.'
        )
    if (count := len(set(re.findall(r"[^\W\d_]+", answer.lower())))) < asked.words:
        return not_yet(
            task.id,
            "say a little more.",
            f"That is {count} different {'word' if count == 1 else 'words'}; at least {asked.words} are needed.",
            "write two or three whole sentences, as if to a friend who knows NumPy.",
        )
    assessed = record.entry(task.id).assessed
    if assessed == "yes":
        return passed(task.id, "by your own judgment.")
    ours = "\n".join([f"Ours: {asked.model}", "A good answer mentions:", *(f"  - {point}" for point in asked.look_for)])
    if assessed:
        headline, next = f'you said "{assessed}".', "add what yours lacks, and assess it again."
    else:
        headline, next = (
            "compare it with ours: you are the judge.",
            f'compare, then call checks.assess("{task.id}", "yes"), "partly" or "no".',
        )
    return not_yet(task.id, headline, ours, next)
