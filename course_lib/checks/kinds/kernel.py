"""Write, configure or repair a kernel: the judges are asked in order, and the first that refuses speaks."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import jax

from course_lib import chips, compiler, errors, grid, judges, roofline, text
from course_lib.checks.result import NOT_YET, Result, does_nothing, not_attempted, not_yet, passed
from course_lib.checks.unfit import Unfit, described
from course_lib.compiler import progress
from course_lib.judges import budget, code, device

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

MAX_STEPS = 256  # a longer grid takes the simulator seconds; the compiler is asked first
MAX_TOUCHES = 2000  # reads and writes of refs, which the simulator makes one by one
_ASKS_FOR_MORE = "the judges agree, but the exercise asks for more."
_NOT_BUILT = "it could not be built."


def result(task: Exercise, defined: object) -> Result:
    """What the judges say of the learner's answer, and then what the exercise demands beside them."""
    if defined is None or does_nothing(defined):
        return not_attempted(task.id, f"write {task.defines}")
    cases, fn, not_built = task.arguments(), None, None
    try:
        fn = task.build(defined)
    except Exception as error:
        not_built = error
    trials = _trials(task, fn, cases)
    if not _attempted(task, defined, trials[0], not_built):
        return not_attempted(task.id, f"write {task.defines}")
    if complaint := _unfit(task, defined, cases[0]):
        return not_yet(task.id, "that is not what is judged.", *complaint)
    if not_built is not None:
        return not_yet(task.id, _NOT_BUILT, *_explained(not_built))
    if not task.arithmetic_around and (complaint := _arithmetic_around(trials)):
        return not_yet(task.id, "part of it is not in the kernel.", *complaint)
    with progress.shown(f"judging {task.id}") as say:
        refusal, heard, report = _heard(task, trials, task.budget, say)
        if refusal is None and task.gradient is not None:
            say(f"judging {task.id}: its gradient")
            refusal, of_gradient, its_report = _gradient_heard(task, fn, cases, say)
            heard, report = heard + of_gradient, its_report or report
    if refusal is not None:
        return refusal
    if complaint := _further_demand(task, defined):
        return not_yet(task.id, _ASKS_FOR_MORE, *complaint, report=report)
    return passed(task.id, _agreement(heard, "" if task.gradient is None else ", on the gradient too"), report=report)


def _heard(
    task: Exercise,
    trials: list[judges.Trial],
    limit: judges.Budget | None,
    say: Callable[[str], None],
    what: str = "it",
) -> tuple[Result | None, list[judges.Verdict], compiler.Report | None]:
    """(the first refusal or None, the verdicts before it, the compiler's report on the first trial)."""
    heard, report = [], None
    for trial, said in _sessions(task, trials, limit, say):
        report = report or (said.report if trial is trials[0] else None)
        if said.passed is False:
            return _refused(task, said, trial, trials, report, limit, what), heard, report
        heard.append(said)
    return None, heard, report


def _gradient_heard(
    task: Exercise, fn: Callable, cases: list[tuple], say: Callable[[str], None]
) -> tuple[Result | None, list[judges.Verdict], compiler.Report | None]:
    """The same for the gradient of a function that is right."""
    asked = task.gradient
    trials = judges.gradient_trials(asked, fn, task.reference, cases, chip=task.chips[0])
    free = task.arithmetic_around if asked.arithmetic_around is None else asked.arithmetic_around
    if not free and (complaint := _arithmetic_around(trials, "the gradient's arithmetic")):
        return not_yet(task.id, "part of the gradient is not in a kernel.", *complaint), [], None
    return _heard(task, trials, asked.budget, say, "its gradient")


def _trials(task: Exercise, fn: Callable | None, cases: list[tuple]) -> list[judges.Trial]:
    """A trial for each case; those of the same shapes and dtypes share what does not depend on values."""
    first: dict[str, judges.Trial] = {}
    trials = []
    for case in cases:
        trials.append(
            judges.Trial(fn, task.reference, case, task.chips[0], first.get(_shapes(case)), task.probes, task.slips)
        )
        first.setdefault(_shapes(case), trials[-1])
    return trials


def _attempted(task: Exercise, defined: object, trial: judges.Trial, not_built: Exception | None) -> bool:
    """False for an answer nobody has begun: a stub, or kernels with no code in them."""
    try:
        if not_built is not None:
            raise not_built
        walk = trial.walk
    except NotImplementedError as error:
        return bool(str(error))  # a bare one is a stub; JAX and Keras give theirs a text
    except Exception:
        return True
    if task.defines == getattr(defined, "__name__", ""):
        return True  # the answer is what is judged, and there is something in it
    kernels = [_kernel_of(defined, call) for call in walk.calls]
    return not kernels or not all(map(does_nothing, kernels))


def _kernel_of(function: object, call: grid.Call) -> object:
    """The Python function behind a kernel, if ``function`` uses one of that name; else None."""
    seen = inspect.getclosurevars(function) if inspect.isfunction(function) else None
    used = (seen.globals | seen.nonlocals).values() if seen else ()
    return next((value for value in used if getattr(value, "__name__", None) == call.name), None)


def _unfit(task: Exercise, defined: object, case: tuple) -> tuple[str, str] | None:
    """What was handed over in the place of the function, or None if a function was."""
    name = task.judged or task.defines
    if not callable(defined):
        kind = "an array" if hasattr(defined, "shape") else described(defined)
        return (
            f"What you handed to check is {kind}{'' if isinstance(defined, str) else ', and no function'}.",
            f"{name} is a function that you define, with def, as the cell had it. Hand it over without quotes or "
            f'brackets: checks.check("{task.id}", {name}).',
        )
    if not inspect.isfunction(defined):
        return None
    parameters = inspect.signature(defined).parameters.values()
    refs = [p.name for p in parameters if p.name.endswith("_ref")]
    if refs and task.judged and defined.__name__ != task.judged:
        return (
            f"{defined.__name__} is a kernel: it takes refs ({', '.join(refs)}). The judges call a function of arrays.",
            f'hand over the function that calls your kernel: checks.check("{task.id}", {name}).',
        )
    by_keyword = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if by_keyword:
        return (
            f"{defined.__name__} takes {', '.join(by_keyword)} by keyword only; the judges hand over {len(case)} "
            "arguments in order.",
            f"take the * out of def {defined.__name__}(...).",
        )
    return None


def _arithmetic_around(trials: list[judges.Trial], what: str = "the arithmetic") -> tuple[str, str] | None:
    """Arithmetic beside the kernel, where all of it is to be done inside. Where there is no kernel, a judge says so."""
    for trial in trials:
        try:
            found = judges.arithmetic_around(trial.walk) if trial.like is None else []
        except Exception:  # the judges will say what is wrong
            continue
        if found and code.not_a_kernel(trial.walk) is None:
            return (
                f"Part of {what} stands outside the kernel: {', '.join(found)}.",
                "do it inside the kernel, on blocks; around the pallas_call only shapes may change.",
            )
    return None


def _sessions(
    task: Exercise, trials: list[judges.Trial], limit: judges.Budget | None, say: Callable[[str], None]
) -> Iterator[tuple[judges.Trial, judges.Verdict]]:
    """(trial, verdict) of each judge in order.

    The numbers judge and a chip see every case, the simulator, the compiler and the budget each shape and dtype once,
    two cores the first. The compiler is asked for each of the exercise's chips.
    """
    each = [trial for trial in trials if trial.like is None]
    for_chips = [
        trial if chip == trial.chip else dataclasses.replace(trial, chip=chip) for trial in each for chip in task.chips
    ]
    seats = {"numbers": trials, "simulator": each, "races": trials[:1], "compiler": for_chips}
    order = [name for name in seats if name in task.judges]
    if _is_long(trials[0]) and "compiler" in order:
        order.sort(key=lambda name: name != "compiler")  # as fast for any grid, it may spare the others a long walk
    if limit is not None:
        order.append("budget")
    if chips.on_a_tpu():
        order.append("device")
    asked = judges.JUDGES | {"budget": functools.partial(budget.sit, budget=limit), "device": device.sit}
    seats |= {"budget": each, "device": trials}
    for name in order:
        for trial in seats[name]:
            say(f"judging {task.id}: {name}")
            yield trial, asked[name](trial)


def _is_long(trial: judges.Trial) -> bool:
    """Whether the simulator would take many seconds."""
    try:
        calls = trial.walk.calls
    except Exception:  # the numbers judge will say what is wrong
        return False
    return any(call.steps > MAX_STEPS or _touches(call) > MAX_TOUCHES for call in calls)


def _touches(call: grid.Call) -> float:
    """How often a kernel reads or writes a ref; infinite where that cannot be told."""
    try:
        return sum(len(use.steps) for use in grid.memory_uses(call))
    except grid.UnreadableCall:
        return float("inf")


def _refused(
    task: Exercise,
    said: judges.Verdict,
    trial: judges.Trial,
    trials: list[judges.Trial],
    report: compiler.Report | None,
    limit: judges.Budget | None,
    what: str,
) -> Result:
    message = f"{said.message}{_price_of_steps(task, trial, limit)}" if said.judge == "budget" else said.message
    name = f"{said.judge} judge" if said.judge in ("numbers", "races", "budget", "device") else said.judge
    several = sum(other.like is None for other in trials) > 1
    return Result(
        id=task.id,
        outcome=NOT_YET,
        judge=said.judge,
        headline=f"the {name} refused {what}." if said.ran else f"the {name} could not run {what}.",
        message=f"With arguments {_shapes(trial.args)}: {message}" if several else message,
        next=said.next,
        blocks=said.blocks,
        report=report,
    )


def _price_of_steps(task: Exercise, trial: judges.Trial, limit: judges.Budget) -> str:
    """How many grid steps there are and what they cost, where a time is limited; "" elsewhere."""
    if limit.times_reference is None:
        return ""
    steps, fitted = sum(call.steps for call in trial.walk.calls), roofline.FITTED.get(task.chips[0])
    if fitted is None or not steps:
        return ""
    each, whole = text.duration(fitted.step_s), text.duration(steps * fitted.step_s)
    return f" Grid steps: {steps:,}. With two buffers one that copies costs at least {each}: {whole} in all."


def _further_demand(task: Exercise, defined: object) -> tuple[str, str] | None:
    for demand in task.also:
        try:
            complaint = demand(defined)
        except Exception as error:
            complaint = _explained(error)
        if complaint:
            return complaint
    return None


def _explained(error: Exception) -> tuple[str, str]:
    if isinstance(error, Unfit):
        return str(error), error.next
    explanation = errors.explain(error)
    return explanation.what, explanation.next


def _shapes(case: tuple) -> str:
    shapes = [f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in jax.tree.leaves(case)]
    return f"of {shapes[0]}" if len(set(shapes)) == 1 else ", ".join(shapes)


def _agreement(heard: list[judges.Verdict], on: str = "") -> str:
    """Who agrees and who could not sit, on one line: the same line wherever the same judges sit."""
    agreed = list(dict.fromkeys(said.judge for said in heard if said.passed))
    skipped = list(dict.fromkeys(said.judge for said in heard if said.passed is None))
    text = f"{', '.join(agreed[:-1])} and {agreed[-1]} agree{on}" if len(agreed) > 1 else f"{agreed[0]} agrees{on}"
    return f"{text}; skipped: {', '.join(skipped)}." if skipped else f"{text}."
