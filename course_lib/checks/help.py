"""Stepwise hints, the listing of an exercise, and its solution after a first attempt."""

import importlib.resources
import json

from course_lib import text
from course_lib.checks import cards, record
from course_lib.checks.exercise import OWN, exercise


def hint(id: str) -> None:
    """Show the next hint for exercise ``id``; after the last one, repeat it."""
    hints = exercise(id).hints
    number = min(record.entry(id).hints + 1, len(hints))
    record.hinted(id, number)
    words = hints[number - 1]
    card = cards.hint(id, number, len(hints), words)
    cards.shown(card, text.folded(f"{id}, hint {number} of {len(hints)}: {words}"))


def next_hint(id: str) -> str:
    """Say how to get help: the next hint, or the solution once all hints are given."""
    given, count = record.entry(id).hints, len(exercise(id).hints)
    if given < count:
        return f'(hint {given + 1} of {count}: checks.hint("{id}"))'
    return "(no hints are left)" if id in OWN else f'(no hints are left: checks.solution("{id}"))'


def listing(id: str) -> None:
    """Print the code that exercise ``id`` asks about, with line numbers."""
    text = exercise(id).listing
    if not text:
        print(f"{id} has no listing: what it asks about is in the notebook.")
    for number, line in enumerate(text.splitlines(), 1):
        print(f"{number:3}  {line}".rstrip())


def solution(id: str) -> None:
    """Print our solution to exercise ``id``, once you have checked an answer of your own."""
    task = exercise(id)
    if id in OWN:
        print(f"{id} is yours: there is no solution of ours.")
        return
    if not record.entry(id).attempts:
        print(f'{id}: try it first. checks.check("{id}", ...) with an answer of yours opens the solution.')
        return
    print(solutions(task.id.partition(".")[0])[id])


def solutions(lesson: str) -> dict[str, str]:
    """Return our solutions to ``lesson`` ("03") by exercise id, as `make build` extracts them from solutions/src."""
    file = importlib.resources.files(f"course_lib.lessons.lesson_{lesson}").joinpath("solutions.json")
    return json.loads(file.read_text())
