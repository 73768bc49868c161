"""The kind "choose": pick one option. Each wrong one gets its own sentence, which never gives the answer away."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from course_lib.checks.result import Result, is_empty, not_attempted, not_yet, passed

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise


_TRY = "check that, on paper or in a cell of your own, before you choose another."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choose:
    """One right option of several. ``wrong`` has a sentence for each of the others; ``proof`` finds the right one."""

    options: tuple[str, ...]  # in the order shown
    right: str
    wrong: dict[str, str]
    why: str  # one short sentence, printed on a pass
    proof: Callable[[], str]
    next: str = _TRY  # what to do before choosing again

    def __post_init__(self) -> None:
        if len(set(self.options)) < max(2, len(self.options)):
            raise ValueError(f"options is {self.options!r}; it needs two or more, all different.")
        if self.right not in self.options:
            raise ValueError(f"right {self.right!r} is none of the options {self.options!r}.")
        if set(self.wrong) != set(self.options) - {self.right}:
            raise ValueError(
                f"wrong has sentences for {sorted(self.wrong)!r}; it should have one for each of "
                f"{sorted(set(self.options) - {self.right})!r}."
            )


def result(task: Exercise, answer: object) -> Result:
    """Pass if ``answer`` is the right option, ignoring case and spaces; 9 stands for "line 9"."""
    asked: Choose = task.asks
    options = _listed(asked.options)
    if is_empty(answer):
        return not_attempted(task.id, f"write {task.defines} = one of {options}")
    chosen = " ".join(str(answer).lower().split()) if isinstance(answer, str) or type(answer) is int else ""
    found = next((option for option in asked.options if option.lower() in (chosen, f"line {chosen}")), None)
    if found is None:
        return not_yet(task.id, *_no_option(answer, chosen, asked.options))
    if found != asked.right:
        return not_yet(task.id, f'"{found}" is not right.', asked.wrong[found], asked.next)
    return passed(task.id, asked.why)


def _no_option(answer: object, chosen: str, options: tuple[str, ...]) -> tuple[str, str, str]:
    """Return (headline, what was chosen, what to try), with a guess at the intended option."""
    named = [option for option in options if re.search(rf"\b{re.escape(option.lower())}\b", chosen)]
    if len(named) > 1:
        return "that is more than one option.", f"You chose {answer!r:.60}.", f"choose one of {_listed(options)}."
    alike = [option.lower() for option in options if _digits(option) == _digits(chosen)]  # "line 79" is not "line 75"
    close = difflib.get_close_matches(chosen, alike, n=1)
    meant = (named or [option for option in options if option.lower() in close] or [""])[0]
    ask = f'did you mean "{meant}"? Choose' if meant else "choose"
    return "that is not one of the options.", f"You chose {answer!r:.60}.", f"{ask} one of {_listed(options)}."


def _digits(words: str) -> str:
    return re.sub(r"\D", "", words)


def _listed(options: tuple[str, ...]) -> str:
    return ", ".join(f'"{option}"' for option in options)
