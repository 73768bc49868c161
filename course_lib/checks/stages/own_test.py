"""The stage in which the learner's own test is tested: it must fail for a kernel with a planted bug."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from course_lib import judges, text
from course_lib.checks import planting
from course_lib.checks.asking import trials_of
from course_lib.checks.result import Result, does_nothing, not_attempted, not_yet, passed
from course_lib.checks.stages import log, names
from course_lib.checks.unfit import described
from course_lib.compiler import progress

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

_KERNEL = "planting bugs in"
_RIGHT = 2  # how often the test is asked about the right kernel, among those with a bug


class Tested(NamedTuple):
    """What a test said of one kernel: "" if it passed, or how it failed."""

    shown: planting.Shown | None  # the planted bug; None for the right kernel
    failure: str


def result(task: Exercise, fn: object, test: object) -> Result:
    """Plant bugs in the learner's kernel, one at a time, and pass if the learner's test fails for each of them.

    The test is called with a function in the place of ``fn``. It fails if it raises, or returns False.
    """
    id = f"{task.id} test"
    if not task.project.planted:
        return passed(id, "no bug is planted in this kernel, so none has to be found.")
    if test is None or does_nothing(test):
        return not_attempted(id, f"write {names.test(task)}(fn), which calls fn and raises if a result is wrong")
    if not callable(test):
        what = f"{names.test(task)} is {described(test)}."
        return not_yet(id, "it is not a function.", what, f"define it: def {names.test(task)}(fn): ...")
    if fn is None or does_nothing(fn) or not callable(fn):
        return not_attempted(id, f"write {task.defines} first")
    with progress.shown(f"{_KERNEL} {task.defines}") as say:
        return _judged(task, id, task.build(fn), test, say)


def _judged(task: Exercise, id: str, fn: Callable, test: Callable, say: Callable[[str], None]) -> Result:
    trials = trials_of(task, fn, task.arguments())
    try:
        wrong, found = planting.shown_by(trials, None), []
        found = [] if wrong else planting.chosen(trials, task.project.planted)
    except Exception as error:  # it cannot be traced
        return not_yet(id, "your kernel does not run yet.", _first_line(error), f'see checks.check("{task.id}", ...).')
    if wrong is not None:
        what = f"With arguments {_shapes(wrong)} the kernel itself is wrong, so no bug has to be planted in it."
        return not_yet(id, "your kernel is not right yet.", what, f'see checks.check("{task.id}", {task.defines}).')
    if not found:
        what = "No mistake that the course knows would change what this kernel returns."
        return not_yet(id, "no bug could be planted.", what, "let a kernel of yours do the work, on blocks.")
    tested = []
    for shown in _in_any_order([*found, *[None] * _RIGHT], task.project.seed):
        place = shown.mistake.place if shown else None
        say(f"{_KERNEL} {task.defines}: {len(tested) + 1} of {len(found) + _RIGHT}")
        tested.append(Tested(shown, failed(test, planting.stand_in(fn, place, task.chips[0]))))
    if failure := next((each.failure for each in tested if each.shown is None and each.failure), ""):
        what = f"It fails for your own kernel, in which nothing is planted: {failure}"
        own = failure.split(":")[0] in _OF_THE_TEST
        return not_yet(id, "it fails for a kernel that is right.", what, _MEND if own else _FAIR)
    of_bugs = [each for shown in found for each in tested if each.shown is shown]
    return _said(task, id, of_bugs)


def _in_any_order(kernels: list, seed: int) -> list:
    """Return the kernels in an order that a test cannot know, but the same for the same seed."""
    order = np.random.default_rng([seed, len(kernels)]).permutation(len(kernels))
    return [kernels[n] for n in order]


_OF_THE_TEST = {"NameError", "AttributeError", "ImportError", "ModuleNotFoundError", "UnboundLocalError", "TypeError"}
_MEND = "this error comes from the test itself. Does it call fn with the arrays that your function takes?"
_FAIR = (
    "compare with a reference in float32, and allow for rounding. Your test gets a stand-in for your function, which "
    "takes arrays."
)


def failed(test: Callable, fn: Callable) -> str:
    """Return how a test fails for a function, in one line; "" if it passes."""
    try:
        returned = test(fn)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too
        return _first_line(error)
    return "it returns False." if _is_false(returned) else ""


def _is_false(returned: object) -> bool:
    """Whether a test returned False: a bool of Python, NumPy or JAX."""
    if getattr(returned, "shape", None) == () and str(getattr(returned, "dtype", "")) == "bool":
        return not bool(returned)
    return returned is False


def _said(task: Exercise, id: str, tested: list[Tested]) -> Result:
    kinds = {each.shown.mistake.said: bool(each.failure) for each in tested}
    survivors = [each.shown for each in tested if not each.failure]
    log.add(task.id, log.TESTED, {"planted": kinds, "passed": not survivors})
    count = text.counted(len(tested), "planted bug")
    if not survivors:
        found = "; ".join(each.shown.mistake.place.kind for each in tested)
        return passed(id, f"it finds {'all ' if len(tested) > 1 else ''}{count}: {found}.")
    first, lines = survivors[0], []
    for shown in survivors:
        lines.append(f"It passes although {shown.mistake.said}. That shows with arguments {_shapes(shown.trial)}.")
    caught = len(tested) - len(survivors)
    return not_yet(id, f"it finds {caught} of {count}.", "\n".join(lines), first.mistake.shows)


def _shapes(trial: judges.Trial) -> str:
    shapes = [f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in jax.tree.leaves(trial.args)]
    return f"of {shapes[0]}" if len(set(shapes)) == 1 else ", ".join(shapes)


def _first_line(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:200]}".rstrip(": ")
