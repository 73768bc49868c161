"""Hints in steps, and the solution once there has been an attempt."""

import importlib.resources
import json

from course_lib.checks.exercise import exercise, exercises
from course_lib.checks.verdict import attempts

_given: dict[str, int] = {}


def hint(id: str) -> None:
    """Print the next hint for exercise ``id``; after the last one, the last one again."""
    hints = exercise(id).hints
    number = min(_given.get(id, 0) + 1, len(hints))
    _given[id] = number
    print(f"{id}, hint {number} of {len(hints)}: {hints[number - 1]}")


def solution(id: str) -> None:
    """Print our solution to exercise ``id``, once you have checked an answer of your own."""
    exercise(id)
    if not attempts.get(id):
        print(f'{id}: try it first. checks.check("{id}", ...) with any answer of yours opens the solution.')
        return
    print(solutions()[id])


def solutions() -> dict[str, str]:
    """Our solutions by exercise id, as `make build` takes them from solutions/src."""
    text = importlib.resources.files("course_lib.checks").joinpath("solutions.json").read_text()
    found = json.loads(text)
    assert found.keys() == exercises().keys(), "run `make build`: solutions.json is out of date"
    return found
