"""The outcome of a check, and its wording."""

import dataclasses
import dis
import inspect

from course_lib import compiler, text

NOT_ATTEMPTED, NOT_YET, PASSED = "not attempted", "not yet", "passed"
EXERCISE = "exercise"  # the "judge" of demands that no judge makes
_UNBROKEN = "\u00a0"  # a space at which no line is broken
SCREEN = 24  # lines; a longer verdict loses the middle of its message


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a check: "not attempted", "not yet" or "passed", and the sentences that go with it."""

    id: str
    outcome: str
    judge: str = ""  # who refused; EXERCISE for a demand that no judge makes
    headline: str = ""  # follows the outcome on the first line
    message: str = ""
    next: str = ""
    hint: str = ""  # which hint comes next, and how to get it
    blocks: object = None  # the judge's picture of the wrong blocks, if it has one
    score: int | None = None  # of golf, once all judges agree
    report: compiler.Report | None = None  # the compiler's, on the first arguments

    @property
    def passed(self) -> bool:
        return self.outcome == PASSED

    def __str__(self) -> str:
        first = f"{self.id} {self.outcome}" + (f": {self.headline}" if self.headline else ".")
        return "\n".join(filter(None, (first, self.message, self.last)))

    @property
    def last(self) -> str:
        """The line that says what to do next; "" if there is nothing left to do."""
        if not self.next and not self.hint:
            return ""
        return " ".join(filter(None, ("Next:", self.next or "take a hint.", self.hint)))

    def _ipython_display_(self) -> None:
        """Show nothing: check() has printed the verdict, and a cell that ends in check(...) must not repeat it."""


class NotPassed(AssertionError):
    """An exception raised under a grader in place of a printed verdict; its text is the verdict."""


def is_empty(answer: object) -> bool:
    """Whether no value has been filled in: None, or blank text."""
    return answer is None or (isinstance(answer, str) and not answer.strip())


def does_nothing(defined: object) -> bool:
    """Whether a function does nothing and returns None, or a class has only such methods.

    Inherited methods count if the base class is defined in the same module, but not if it belongs to a framework.
    """
    if isinstance(defined, type):
        beside = [base for base in defined.__bases__ if base.__module__ == defined.__module__]
        return all(map(does_nothing, beside)) and all(
            does_nothing(v) for k, v in vars(defined).items() if callable(v) and not k.startswith("__")
        )
    if not inspect.isfunction(defined):
        return False
    body = [i for i in dis.get_instructions(defined) if i.opname not in ("RESUME", "NOP", "COPY_FREE_VARS")]
    return all(i.opname in ("LOAD_CONST", "RETURN_CONST", "RETURN_VALUE") and i.argval is None for i in body)


def not_attempted(id: str, what_to_write: str) -> Result:
    """Return the result for an answer that has not been started."""
    exercise = id.partition(" ")[0]  # without the stage of a project, as in "18.4 test"
    return Result(id=id, outcome=NOT_ATTEMPTED, next=f'{what_to_write}; checks.hint("{exercise}") helps.')


def not_yet(id: str, headline: str, message: str, next: str, **more) -> Result:
    """Return the result for an answer that the exercise itself refuses."""
    return Result(id=id, outcome=NOT_YET, judge=EXERCISE, headline=headline, message=message, next=next, **more)


def passed(id: str, headline: str, **more) -> Result:
    """Return a pass: one line, the same wherever it is printed, because graders and nbval look for it."""
    return Result(id=id, outcome=PASSED, headline=headline, **more)


def on_a_screen(verdict: Result, picture: str = "") -> str:
    """Return the verdict in at most 24 lines of 94 columns; cut the message if it is longer, never the next step.

    ``picture`` is added at the end if all of it fits.
    """
    whole_hint = dataclasses.replace(verdict, hint=verdict.hint.replace(" ", _UNBROKEN)).last
    head = dataclasses.replace(verdict, message="", next="", hint="")
    first, last = (text.folded(t).replace(_UNBROKEN, " ").splitlines() for t in (str(head), whole_hint))
    body, room = text.folded(verdict.message).splitlines(), SCREEN - len(first) - len(last)
    if len(body) > room:
        body = [*body[: room - 1], "..."]
    lines = [*first, *body, *last]
    drawn = picture.splitlines()
    return "\n".join(lines + drawn if len(lines) + len(drawn) <= SCREEN else lines)
