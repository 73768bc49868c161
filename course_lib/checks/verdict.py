"""Check an exercise: run the judges on what the learner defined and say one thing that helps."""

import dataclasses
import dis
import inspect
import os
import sys

from course_lib import errors, grid, judges
from course_lib.checks.exercise import Exercise, exercise

NOT_ATTEMPTED, NOT_YET, PASSED = "not attempted", "not yet", "passed"
EXERCISE = "exercise"
MAX_STEPS = 256  # a longer grid takes the simulator seconds; the compiler is asked first

# The exercises checked in this Python process, for hint() and solution().
attempts: dict[str, int] = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome of a check: "not attempted", "not yet" or "passed", and the sentence that goes with it."""

    id: str
    outcome: str
    judge: str = ""  # who refused; EXERCISE for a demand that no judge makes
    ran: bool = True  # False: it could not even be run, so nobody judged its numbers
    message: str = ""
    next: str = ""

    @property
    def passed(self) -> bool:
        return self.outcome == PASSED

    def __str__(self) -> str:
        lines = [f"{self.id} {self.outcome}"]
        if self.judge == EXERCISE and not self.ran:
            lines[0] += ": it could not be built."
        elif self.judge == EXERCISE:
            lines[0] += ": the judges agree, but the exercise asks for more."
        elif self.judge:
            judge = f"{self.judge} judge" if self.judge in ("numbers", "races") else self.judge
            lines[0] += f": the {judge} refused it." if self.ran else f": the {judge} could not run it."
        elif self.outcome == PASSED:
            lines[0] += f": {self.message}"
        else:
            lines[0] += "."
        if self.judge:
            lines.append(self.message)
        if self.next:
            lines.append(f"Next: {self.next}")
        return "\n".join(lines)

    def _ipython_display_(self) -> None:
        """Nothing: check() has printed it, and a cell that ends in check(...) must not say it twice."""


class NotPassed(AssertionError):
    """Raised in place of a printed verdict where a grader listens; its text is the verdict."""


def check(id: str, defined=None) -> Verdict:
    """Judge the learner's answer to exercise ``id``, print the verdict and return it.

    ``defined`` is what the exercise asks for: a function or a class. A wrong answer is no exception, so that a
    notebook runs on; only under a grader (make grade or nbgrader), or under nbval for an answer that is wrong, is
    NotPassed raised. Raises ValueError for an id that does not exist.
    """
    verdict = _verdict(exercise(id), defined)
    if verdict.outcome != NOT_ATTEMPTED:
        attempts[id] = attempts.get(id, 0) + 1
    if (_graded() and not verdict.passed) or (verdict.outcome == NOT_YET and _under_nbval()):
        raise NotPassed(str(verdict))
    print(errors.folded(str(verdict)))
    return verdict


def _graded() -> bool:
    """A grader runs the cell: ours, or nbgrader, for which a cell without an exception is worth full marks."""
    return "COURSE_GRADING" in os.environ or "NBGRADER_EXECUTION" in os.environ


def _under_nbval() -> bool:
    """A notebook kernel that pytest has started."""
    return "PYTEST_CURRENT_TEST" in os.environ and "ipykernel_launcher" in sys.argv[0]


def _verdict(task: Exercise, defined) -> Verdict:
    if not _attempted(task, defined):
        return Verdict(id=task.id, outcome=NOT_ATTEMPTED, next=f'write {task.defines}; checks.hint("{task.id}") helps.')
    try:
        fn = task.build(defined)
    except Exception as error:
        return _not_yet(task, EXERCISE, *_explained(error), ran=False)
    passed = []
    for judge, case, said in _sessions(task, fn):
        if said.passed is False:
            return _not_yet(task, judge, _with_case(said.message, task, case), said.next, said.ran)
        passed.append((case, said))
    for demand in task.also:
        try:
            complaint = demand(defined)
        except Exception as error:
            complaint = _explained(error)
        if complaint:
            return _not_yet(task, EXERCISE, *complaint)
    return Verdict(id=task.id, outcome=PASSED, message=_agreement(passed))


def _attempted(task: Exercise, defined) -> bool:
    """False for an answer nobody has begun: nothing defined or returned, a kernel or a class with no code in it."""
    if defined is None or _is_empty(defined):
        return False
    try:
        walk = grid.walk(task.build(defined), *task.cases()[0])
    except NotImplementedError as error:
        return bool(str(error))  # a bare one is a stub; JAX and Keras give theirs a text
    except Exception:
        return True
    if task.defines == getattr(defined, "__name__", ""):
        return True  # the answer is what is judged, and there is something in it
    kernels = [_kernel_of(defined, call) for call in walk.calls]
    return not kernels or not all(map(_is_empty, kernels))


def _kernel_of(function, call: grid.Call):
    """The Python function behind a kernel, if ``function`` uses one of that name; else None."""
    seen = inspect.getclosurevars(function) if inspect.isfunction(function) else None
    used = (seen.globals | seen.nonlocals).values() if seen else ()
    return next((value for value in used if getattr(value, "__name__", None) == call.name), None)


def _is_empty(defined) -> bool:
    """A function that does nothing and returns None, or a class that has no methods but such."""
    if isinstance(defined, type):
        return all(_is_empty(v) for k, v in vars(defined).items() if callable(v) and not k.startswith("__"))
    if not inspect.isfunction(defined):
        return False
    body = [i for i in dis.get_instructions(defined) if i.opname not in ("RESUME", "NOP", "COPY_FREE_VARS")]
    return all(i.opname in ("LOAD_CONST", "RETURN_CONST", "RETURN_VALUE") and i.argval is None for i in body)


def _sessions(task: Exercise, fn):
    """(judge, case, verdict). Two cores see the first case, the other judges all of them."""
    cases = task.cases()
    order = list(judges.JUDGES.items())
    if _steps(fn, cases[0]) > MAX_STEPS:
        order.reverse()  # the compiler, which is as fast for any grid, may spare the simulators a long walk
    for name, sit in order:
        for case in cases[:1] if name == "races" else cases:
            yield name, case, sit(fn, task.reference, *case)


def _steps(fn, case: tuple) -> int:
    try:
        return max((call.steps for call in grid.walk(fn, *case).calls), default=0)
    except Exception:  # the numbers judge will say what is wrong
        return 0


def _explained(error: Exception) -> tuple[str, str]:
    explanation = errors.explain(error)
    return explanation.what, explanation.advice


def _not_yet(task: Exercise, judge: str, message: str, advice: str, ran: bool = True) -> Verdict:
    hint = f'checks.hint("{task.id}") has {len(task.hints)} hints.'
    return Verdict(id=task.id, outcome=NOT_YET, judge=judge, message=message, next=f"{advice} {hint}".strip(), ran=ran)


def _with_case(message: str, task: Exercise, case: tuple) -> str:
    return f"With arguments {_shapes(case)}: {message}" if len(task.cases()) > 1 else message


def _shapes(case: tuple) -> str:
    shapes = [f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in case]
    return f"of {shapes[0]}" if len(set(shapes)) == 1 else ", ".join(shapes)


def _agreement(passed: list[tuple[tuple, judges.Verdict]]) -> str:
    """Who agrees, who could not sit, and the cycles the compiler predicts for the first arguments."""
    agreed = list(dict.fromkeys(said.judge for _, said in passed if said.passed))
    text = f"{', '.join(agreed[:-1])} and {agreed[-1]} agree." if len(agreed) > 1 else f"{agreed[0]} agrees."
    for said in {said.judge: said for _, said in passed if said.passed is None}.values():
        text += f"\nSkipped: {said.judge}. {said.message}"
    reports = [(case, said.report) for case, said in passed if said.report is not None]
    if reports and reports[0][1].cycles is not None:
        text += f"\nPredicted for a v5e, with arguments {_shapes(reports[0][0])}: {reports[0][1].cycles:,} cycles."
    return text
