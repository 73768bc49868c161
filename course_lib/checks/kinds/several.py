"""The kind "several": small named questions, answered in one dict: each is a Predict, a Choose, or a tuple of these."""

from __future__ import annotations

import dataclasses
import types
from typing import TYPE_CHECKING

from course_lib.checks.kinds import choose, predict
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.result import Result, is_empty, not_attempted, not_yet, passed
from course_lib.checks.unfit import described

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

_RESULTS = {Predict: predict.result, Choose: choose.result}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Several:
    """Several named questions: ``parts`` maps each name to its own. A pair of questions is answered with a pair."""

    parts: dict[str, Predict | Choose | tuple[Predict | Choose, ...]]
    why: str  # one short sentence, printed on a pass

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise ValueError(f"parts has {len(self.parts)}; one question alone is a Predict or a Choose.")
        for name, asked in self.parts.items():
            if not questions(asked) or not all(type(one) in _RESULTS for one in questions(asked)):
                raise ValueError(f"part {name!r} is {asked!r:.60}; it is a Predict, a Choose, or a tuple of these.")


def questions(asked: object) -> tuple:
    """Return the questions of one part as a tuple."""
    return asked if isinstance(asked, tuple) else (asked,)


def result(task: Exercise, answer: object) -> Result:
    """Pass if every part is right. The verdict is about the first wrong one."""
    asked: Several = task.asks
    if is_empty(answer):
        return not_attempted(task.id, f"fill in {task.defines}")
    if not isinstance(answer, dict):
        return not_yet(task.id, "it is not a dict.", f"{task.defines} is {described(answer)}.", _wanted(task))
    if strange := [key for key in answer if key not in asked.parts]:
        return not_yet(
            task.id, "there is no such question.", f"Your dict has the key {strange[0]!r:.60}.", _wanted(task)
        )
    said = {name: _part(task, name, answer.get(name)) for name in asked.parts}
    if all(one is None for one in said.values()):
        return not_attempted(task.id, f"fill in {task.defines}")
    right = [name for name, one in said.items() if one is not None and one.passed]
    if len(right) == len(said):
        return passed(task.id, asked.why)
    tally = f"Right so far: {', '.join(right)}." if right else ""
    for name, one in said.items():
        if one is not None and not one.passed:
            message = "\n".join(filter(None, (one.message, tally)))
            return not_yet(task.id, f"{name}: {one.headline}", message, one.next)
    still = ", ".join(name for name, one in said.items() if one is None)
    return not_yet(
        task.id, f"{len(right)} of {len(said)} are right.", f"Not answered yet: {still}.", "answer the rest."
    )


def _part(task: Exercise, name: str, answer: object) -> Result | None:
    """Return the verdict on one part; None if nothing is answered yet.

    If several of its questions are not passed, the verdict on a number takes precedence, because the rest depends on
    it.
    """
    asked = task.asks.parts[name]
    if not isinstance(asked, tuple):
        return None if is_empty(answer) else _one(task, name, asked, answer)
    if is_empty(answer) or (isinstance(answer, tuple | list) and all(map(is_empty, answer))):
        return None
    if not isinstance(answer, tuple | list) or len(answer) != len(asked):
        return not_yet(
            task.id,
            f"this part needs {len(asked)} answers.",
            f"{task.defines}[{name!r}] is {described(answer)}.",
            f"write {len(asked)} answers in parentheses, separated by commas.",
        )
    said = [_one(task, name, *both) for both in zip(asked, answer, strict=True)]
    wrong = [(question, one) for question, one in zip(asked, said, strict=True) if not one.passed]
    numbers = [one for question, one in wrong if isinstance(question, Predict)]
    return next(iter(numbers + [one for _, one in wrong]), said[-1])


def _one(task: Exercise, name: str, asked: Predict | Choose, answer: object) -> Result:
    if is_empty(answer):
        return not_yet(task.id, "half of it is not answered yet.", "", f"answer both halves of {name}.")
    part = types.SimpleNamespace(id=task.id, asks=asked, defines=f"{task.defines}[{name!r}]")
    return _RESULTS[type(asked)](part, answer)


def _wanted(task: Exercise) -> str:
    return f"write a dict with the keys {', '.join(map(repr, task.asks.parts))}."
