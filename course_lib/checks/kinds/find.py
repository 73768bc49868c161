"""The kind "find": name the wrong line of a listing. A test proves that the code fails, and passes once fixed."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from course_lib.checks.result import Result, is_empty, not_attempted, not_yet, passed

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

_ENOUGH = 12  # characters of a line that identify it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Find:
    """A wrong line to find: ``line`` of the exercise's listing, counted from 1, should be ``fixed``.

    ``near`` has sentences for other lines that a careful reader may suspect, and ``next`` says what to do before
    another try. ``function`` names the function of the listing that is judged, with the exercise's arguments and
    reference: ``refused_by`` refuses it, and passes it once fixed.
    """

    line: int
    fixed: str
    why: str  # one short sentence, printed on a pass
    near: dict[int, str]
    function: str
    refused_by: str
    next: str = "follow one block through the listing, line by line: is it the one that you want?"


def problem(asked: Find, listing: str) -> str:
    """Return what does not fit between the question and its listing; "" if nothing."""
    lines = listing.splitlines()
    for number in (asked.line, *asked.near):
        if not 1 <= number <= len(lines) or not lines[number - 1].strip():
            return f"line {number} is not a line of its listing, or an empty one."
    if asked.line in asked.near:
        return f"near has a sentence for line {asked.line}, which is the right answer."
    if _same(lines[asked.line - 1], asked.fixed):
        return f"line {asked.line} is already what fixed says."
    return ""


def mended(asked: Find, listing: str) -> str:
    """Return the listing with its wrong line replaced."""
    lines = listing.splitlines()
    lines[asked.line - 1] = asked.fixed
    return "\n".join(lines) + "\n"


def result(task: Exercise, answer: object) -> Result:
    """Pass if ``answer`` is the wrong line: its number, or its text as it is or should be, in any spacing."""
    asked: Find = task.asks
    if is_empty(answer):
        return not_attempted(task.id, f'write {task.defines} = the number of a line of checks.listing("{task.id}")')
    lines = task.listing.splitlines()
    found = _lines_meant(answer, lines)
    if not found and isinstance(answer, str) and _same(answer, asked.fixed):
        return passed(task.id, asked.why)
    if len(found) != 1:
        return not_yet(task.id, "that is not a line of the listing.", *_not_a_line(answer, found, len(lines)))
    (number,) = found
    if number == asked.line:
        return passed(task.id, asked.why)
    if not (text := lines[number - 1].strip()):
        return not_yet(task.id, f"line {number} is blank.", "", asked.next)
    message = asked.near.get(number, "It does what it should.")
    return not_yet(task.id, f"line {number} is not the mistake.", f"Line {number}: {text}\n{message}", asked.next)


def _lines_meant(answer: object, lines: list[str]) -> list[int]:
    """Return the numbers of the lines that an answer names; [] if it names none."""
    if (number := _number(answer)) is not None:
        return [number] if 1 <= number <= len(lines) else []
    if not isinstance(answer, str):
        return []
    whole = [n for n, line in enumerate(lines, 1) if _same(line, answer) or _same(f"{n}{line}", answer)]
    if whole or len(part := _squeezed(answer)) < _ENOUGH:  # as printed, with or without its number
        return whole
    return [n for n, line in enumerate(lines, 1) if part in _squeezed(line)]


def _number(answer: object) -> int | None:
    """Return 8 for 8, 8.0, np.int64(8), "8" and "line 8"; None for anything that is not a line number."""
    if isinstance(answer, str):
        match = re.fullmatch(r"\s*(?:line)?\s*(\d{1,6})\s*[.:]?\s*", answer, re.IGNORECASE)
        return int(match[1]) if match else None
    if getattr(answer, "shape", None) == () and hasattr(answer, "item"):  # a NumPy or JAX scalar
        answer = answer.item()
    if isinstance(answer, float) and answer.is_integer():
        return int(answer)
    return answer if isinstance(answer, int) and not isinstance(answer, bool) else None


def _not_a_line(answer: object, found: list[int], count: int) -> tuple[str, str]:
    if found:
        return f"Lines {', '.join(map(str, found))} read {answer!r:.60}.", "give the number of the one you mean."
    return f"You gave {answer!r:.60}.", f"give a number from 1 to {count}, or copy the text of one line."


def _same(line: str, other: str) -> bool:
    return _squeezed(line) == _squeezed(other)


def _squeezed(line: str) -> str:
    return "".join(line.split())
