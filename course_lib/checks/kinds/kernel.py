"""The kinds "write", "configure" and "repair": the judges run in order, and the first refusal is the verdict."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from course_lib import compiler, errors, judges
from course_lib.checks import one_pass
from course_lib.checks.asking import ask_judges, refused_at, trials_of
from course_lib.checks.kinds import many_chips, other_engines
from course_lib.checks.result import Result, does_nothing, not_attempted, not_yet, passed
from course_lib.checks.unfit import Unfit, described
from course_lib.compiler import progress
from course_lib.judges import gradient
from course_lib.judges.reading import malformed

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

_ASKS_FOR_MORE = "the judges agree, but the exercise asks for more."
_NOT_BUILT = "it could not be built."


def result(task: Exercise, defined: object) -> Result:
    """Return what the judges say of the learner's answer, and then whether it meets the exercise's other demands."""
    users = (way_back_of(defined), defined) if task.engine else (way_back_of(defined),)  # their kernels are not walked
    if defined is None or does_nothing(defined) or any(does_nothing(named(task.defines, user)) for user in users):
        return not_attempted(task.id, f"write {task.defines}")
    elsewhere = many_chips if task.mesh else other_engines if task.engine else None
    cases, fn, not_built = task.arguments(), None, None
    try:
        fn = task.build(defined)
    except Exception as error:
        not_built = error
    trials = [] if elsewhere else trials_of(task, fn, cases)
    walk = (lambda: elsewhere.walk(task, fn, cases[0])) if elsewhere else lambda: trials[0].walk
    if not _attempted(task, defined, walk, not_built):
        return not_attempted(task.id, f"write {task.defines}")
    if complaint := _unfit(task, defined, cases[0]):
        return not_yet(task.id, "the check cannot judge that.", *complaint)
    if not_built is not None:
        what, next = _explained(not_built)
        next = next or f"the check calls {task.defines} with its own arguments: try other sizes than the example's."
        return not_yet(task.id, getattr(not_built, "headline", "") or _NOT_BUILT, what, next)
    if not task.arithmetic_around and (complaint := _arithmetic_around(trials)):
        return not_yet(task.id, "part of it is not in the kernel.", *complaint)
    of_gradient = _gradient_trials(task, fn, cases)
    refusal, agreed, report = elsewhere.heard(task, fn) if elsewhere else _heard(task, trials, of_gradient)
    if refusal is not None:
        return refusal
    if complaint := _further_demand(task, defined):
        headline, what, next = complaint
        return not_yet(task.id, headline, what, next, report=report)
    for trial in (*trials[:1], *of_gradient[:1]):
        if complaint := one_pass.complaint(trial):
            return not_yet(task.id, _ASKS_FOR_MORE, *complaint, report=report)
    for case in task.also_at() if task.also_at else []:
        if refusal := refused_at(task, fn, case, "that counts too"):
            return dataclasses.replace(refusal, report=report)
    agreement = _agreement(agreed, "" if task.gradient is None else ", on the gradient too")
    if task.engine == other_engines.GPU:
        agreement = other_engines.stable(agreement)
    achieved = task.achieved(defined) if callable(task.achieved) else task.achieved
    return passed(task.id, f"{achieved}: {agreement}" if achieved else agreement, report=report)


def _heard(
    task: Exercise, trials: list[judges.Trial], of_gradient: list[judges.Trial]
) -> tuple[Result | None, list[judges.Verdict], compiler.Report | None]:
    """Run the judges on a function, then on its gradient if one is asked for; the result is that of ``ask_judges``."""
    with progress.shown(f"judging {task.id}") as say:
        judged = task.judges
        if "numbers" in judged and _all_run_in(of_gradient, trials):
            judged = ("numbers",)  # the others judge its kernels within the gradient
        refusal, agreed, report = ask_judges(task, trials, task.budget, say, asked=judged)
        if refusal is not None or task.gradient is None:
            return refusal, agreed, report
        say(f"judging {task.id}: its gradient")
        refusal, more, its_report = _gradient_heard(task, of_gradient, say)
        return refusal, agreed + more, its_report or report


def _gradient_trials(task: Exercise, fn: Callable, cases: list[tuple]) -> list[judges.Trial]:
    """Return the trials of the gradient; [] if none is asked for."""
    return [] if task.gradient is None else gradient.trials(task.gradient, fn, task.reference, cases, task.chips[0])


def _all_run_in(of_gradient: list[judges.Trial], trials: list[judges.Trial]) -> bool:
    """Whether the gradient runs every kernel of the function, as forward rules mostly do, so that it judges both."""
    try:
        pairs = zip(trials, of_gradient, strict=False)  # a gradient may have one more trial, with zeros
        return bool(of_gradient) and all(_kernels(alone) <= _kernels(back) for alone, back in pairs)
    except Exception:  # the judges will say what is wrong
        return False


def _kernels(trial: judges.Trial) -> set[tuple]:
    """Return each kernel with its grid and its blocks, as it would be compiled."""
    return {
        (call.grid, str(call.kernel), *((o.block_shape, np.asarray(o.indices).tobytes()) for o in call.operands))
        for call in trial.walk.calls
    }


def _gradient_heard(
    task: Exercise, trials: list[judges.Trial], say: Callable[[str], None]
) -> tuple[Result | None, list[judges.Verdict], compiler.Report | None]:
    """Run the judges on the gradient of a function that is right; the result is that of ``ask_judges``."""
    asked = task.gradient
    free = task.arithmetic_around if asked.arithmetic_around is None else asked.arithmetic_around
    if not free and (complaint := _arithmetic_around(trials, "the gradient's arithmetic")):
        return not_yet(task.id, "part of the gradient is not in a kernel.", *complaint), [], None
    return ask_judges(task, trials, asked.budget, say, "its gradient", few=True)


def _attempted(task: Exercise, defined: object, walk: Callable, not_built: Exception | None) -> bool:
    """Whether the answer has been started: False for a stub, or for kernels with no code in them."""
    try:
        if not_built is not None:
            raise not_built
        calls = walk().calls
    except NotImplementedError as error:
        return bool(str(error))  # a bare one is a stub; those of JAX and Keras have a text
    except Exception:
        return True
    if task.defines == getattr(defined, "__name__", ""):
        return True  # the answer is what is judged, and it is not empty
    kernels = [named(call.name, defined) for call in calls]
    return not kernels or not all(map(does_nothing, kernels))


def way_back_of(answer: object) -> object:
    """Return the backward rule of an answer defined with jax.custom_vjp; None for any other."""
    return getattr(answer, "bwd", None)


def named(name: str, user: object) -> object:
    """Return the Python function or class of that name that ``user`` refers to, such as a kernel's body; else None."""
    if (uses := getattr(user, "uses", None)) is not None:  # a stand-in for a function in another process
        return uses.get(name)
    seen = inspect.getclosurevars(user) if inspect.isfunction(user) else None
    used = (seen.globals | seen.nonlocals).values() if seen else ()
    return next((value for value in used if getattr(value, "__name__", None) == name), None)


def _unfit(task: Exercise, defined: object, case: tuple) -> tuple[str, str] | None:
    """Return (what was passed in place of a function, what to try), or None if it is a function."""
    name = task.judged or task.defines
    if not callable(defined):
        kind = "an array" if hasattr(defined, "shape") else described(defined)
        return (
            f"What you passed to check is {kind}{'' if isinstance(defined, str) else ', not a function'}.",
            f"{name} is a function that you define, with def, as in the cell. Pass it without quotes or "
            f'parentheses: checks.check("{task.id}", {name}).',
        )
    if not inspect.isfunction(defined):
        return None
    parameters = inspect.signature(defined).parameters.values()
    refs = [p.name for p in parameters if p.name.endswith("_ref")]
    if refs and task.judged and defined.__name__ != task.judged:
        return (
            f"{defined.__name__} is a kernel: it takes refs ({', '.join(refs)}). The judges call a function of arrays.",
            f'pass the function that calls your kernel: checks.check("{task.id}", {name}).',
        )
    by_keyword = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if by_keyword:
        return (
            f"{defined.__name__} takes {', '.join(by_keyword)} by keyword only; the judges pass {len(case)} "
            "positional arguments.",
            f"remove the * from def {defined.__name__}(...).",
        )
    return None


def _arithmetic_around(trials: list[judges.Trial], what: str = "the arithmetic") -> tuple[str, str] | None:
    """Return a complaint about arithmetic outside the kernel, or None. If there is no kernel, a judge says so."""
    for trial in trials:
        try:
            walk = trial.walk
        except Exception:  # the judges will say what is wrong
            continue
        found = judges.arithmetic_around(walk) if trial.like is None else []
        if found and malformed.not_a_kernel(walk) is None:
            return (
                f"Part of {what} is outside the kernel: {', '.join(found)}.",
                "do it inside the kernel, on blocks; around the pallas_call only shapes may change.",
            )
    return None


def _further_demand(task: Exercise, defined: object) -> tuple[str, str, str] | None:
    """Return (headline, what is wrong, what to try), or None."""
    for demand in task.also:
        try:
            if complaint := demand(defined):
                return _ASKS_FOR_MORE, *complaint
        except Exception as error:
            return getattr(error, "headline", "") or _ASKS_FOR_MORE, *_explained(error)
    return None


def _explained(error: Exception) -> tuple[str, str]:
    if isinstance(error, Unfit):
        return str(error), error.next
    explanation = errors.explain(error)
    return explanation.what, explanation.next


def _agreement(verdicts: list[judges.Verdict], on: str = "") -> str:
    """Return one line on which judges agree and which were skipped: always the same line for the same judges."""
    agreed = list(dict.fromkeys(said.judge for said in verdicts if said.passed))
    skipped = list(dict.fromkeys(said.judge for said in verdicts if said.passed is None))
    text = f"{', '.join(agreed[:-1])} and {agreed[-1]} agree{on}" if len(agreed) > 1 else f"{agreed[0]} agrees{on}"
    return f"{text}; skipped: {', '.join(skipped)}." if skipped else f"{text}."
