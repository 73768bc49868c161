"""Choose one of a few. A wrong choice gets its own sentence; none gives the right one away."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING

from course_lib.checks.verdict import Verdict, not_attempted, not_yet, passed

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choose:
    """``wrong``: the other options, each with the sentence that it gets. ``proof`` finds the right one by itself."""

    options: tuple[str, ...]  # in the order in which they are shown
    right: str
    wrong: dict[str, str]
    why: str  # one short sentence, said once it is right
    proof: Callable[[], str]

    def __post_init__(self) -> None:
        if len(set(self.options)) < max(2, len(self.options)):
            raise ValueError(f"options {self.options!r} are not two or more, all different.")
        if self.right not in self.options:
            raise ValueError(f"right {self.right!r} is none of the options {self.options!r}.")
        if set(self.wrong) != set(self.options) - {self.right}:
            raise ValueError(
                f"wrong has sentences for {sorted(self.wrong)!r}; it should have one for each of "
                f"{sorted(set(self.options) - {self.right})!r}."
            )


def verdict(task: Exercise, answer: object) -> Verdict:
    """Passed if ``answer`` is the right option; upper and lower case and spaces around it do not matter."""
    asked: Choose = task.asks
    options = _listed(asked.options)
    if answer is None or answer == "":
        return not_attempted(task.id, f"write {task.defines} = one of {options}")
    chosen = answer.strip().lower() if isinstance(answer, str) else None
    found = next((option for option in asked.options if option.lower() == chosen), None)
    if found is None:
        close = difflib.get_close_matches(chosen or "", [o.lower() for o in asked.options], n=1)
        meant = f'did you mean "{close[0]}"? ' if close else ""
        return not_yet(
            task.id, "that is none of the options.", f"You chose {answer!r:.60}.", f"{meant}Choose one of {options}."
        )
    if found != asked.right:
        return not_yet(task.id, f'"{found}" is not the one.', asked.wrong[found], "think again before you try another.")
    return passed(task.id, asked.why)


def _listed(options: tuple[str, ...]) -> str:
    return ", ".join(f'"{option}"' for option in options)
