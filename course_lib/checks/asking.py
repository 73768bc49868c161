"""The run of an exercise's judges on its trials; the first refusal becomes its result."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import jax

from course_lib import chips, compiler, grid, judges, roofline, text
from course_lib.checks import inputs
from course_lib.checks.result import NOT_YET, Result
from course_lib.compiler import progress
from course_lib.judges.tpu import budget, device

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

_NEEDED = ("numbers", "simulator", "races")  # judges that run everywhere: no answer passes without them
_ELSE = "write that part in another way: an answer passes only if every judge of the exercise can run it."
MAX_STEPS = 256  # the simulator needs seconds for a longer grid, so the compiler goes first
MAX_TOUCHES = 2000  # reads and writes of refs, which the simulator performs one by one


def trials_of(task: Exercise, fn: Callable | None, cases: list[tuple]) -> list[judges.Trial]:
    """Return one trial per case; cases of the same shapes and dtypes share what does not depend on values."""
    first: dict[str, judges.Trial] = {}
    trials = []
    for case in cases:
        trials.append(
            judges.Trial(fn, task.reference, case, task.chips[0], first.get(_shapes(case)), task.probes, task.slips)
        )
        first.setdefault(_shapes(case), trials[-1])
    return trials


def refused_at(task: Exercise, fn: Callable, case: tuple, which: str) -> Result | None:
    """Return the numbers judge's refusal for further arguments, at the size ``which``: "that is scored".

    None if it agrees, and if the arguments are shapes, for which there are no numbers.
    """
    leaves = jax.tree.leaves(case)
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
        return None
    what = f"it at the size {which}, {', '.join(str(leaf.shape) for leaf in leaves)}"
    with progress.shown(f"judging {task.id}") as say:
        refusal, *_ = ask_judges(task, trials_of(task, fn, [case]), None, say, what, asked=("numbers",))
    return refusal


def ask_judges(
    task: Exercise,
    trials: list[judges.Trial],
    limit: judges.Budget | None,
    say: Callable[[str], None],
    what: str = "it",
    few: bool = False,
    asked: tuple[str, ...] | None = None,
) -> tuple[Result | None, list[judges.Verdict], compiler.Report | None]:
    """Return (the first refusal or None, the verdicts before it, the compiler's report on the first trial).

    ``limit`` is the budget, and ``what`` names the refused thing in a message. ``few`` is as in ``_verdicts``;
    ``asked`` overrides the exercise's judges.
    """
    verdicts, report = [], None
    for trial, said in _verdicts(task, trials, limit, say, few, asked or task.judges):
        report = report or (said.report if trial is trials[0] else None)
        if said.passed is False or (said.passed is None and said.judge in _NEEDED):
            return _refused(task, said, trial, trials, report, limit, what), verdicts, report
        verdicts.append(said)
    return None, verdicts, report


def _verdicts(
    task: Exercise,
    trials: list[judges.Trial],
    limit: judges.Budget | None,
    say: Callable[[str], None],
    few: bool,
    asked: tuple[str, ...],
) -> Iterator[tuple[judges.Trial, judges.Verdict]]:
    """Yield the (trial, verdict) pairs, judge by judge.

    The numbers judge and a chip see every case; the simulator, the compiler and the budget see each shape and dtype
    once; the race judge sees only the first. The compiler runs for each of the exercise's chips. With ``few``, those
    three see only the first shape and dtype, an odd one, and one of each dtype.
    """
    each = [trial for trial in trials if trial.like is None]
    each = _different(each) if few else each
    for_chips = [
        trial if chip == trial.chip else dataclasses.replace(trial, chip=chip) for trial in each for chip in task.chips
    ]
    asked_about = {"numbers": trials, "simulator": each, "races": trials[:1], "compiler": for_chips}
    order = [name for name in asked_about if name in asked]
    if _is_long(trials[0]) and "compiler" in order:
        order.sort(key=lambda name: name != "compiler")  # as fast for any grid; it may spare the others a long walk
    if limit is not None:
        order.append("budget")
    if chips.on_a_tpu():
        order.append("device")
    ask = judges.JUDGES | {"budget": functools.partial(budget.ask, budget=limit), "device": device.ask}
    asked_about |= {"budget": each, "device": trials}
    for name in order:
        for trial in asked_about[name]:
            say(f"judging {task.id}: {name}")
            yield trial, ask[name](trial)


def _different(trials: list[judges.Trial]) -> list[judges.Trial]:
    """Return the first trial, an odd one, and one of each dtype; one trial may be several of these."""

    def dtypes(trial: judges.Trial) -> list:
        return [leaf.dtype for leaf in jax.tree.leaves(trial.args)]

    def odd(trial: judges.Trial) -> bool:
        return any(inputs.is_odd(dict(enumerate(leaf.shape))) for leaf in jax.tree.leaves(trial.args))

    chosen = trials[:1]
    for trial in trials[1:]:
        if dtypes(trial) not in [dtypes(other) for other in chosen]:
            chosen.append(trial)
    return chosen if any(map(odd, chosen)) else chosen + [trial for trial in trials if odd(trial)][:1]


def _is_long(trial: judges.Trial) -> bool:
    """Whether the simulator would take many seconds."""
    try:
        calls = trial.walk.calls
    except Exception:  # the numbers judge will say what is wrong
        return False
    return any(call.steps > MAX_STEPS or _touches(call) > MAX_TOUCHES for call in calls)


def _touches(call: grid.Call) -> float:
    """Return how often a kernel reads or writes a ref; infinity if that is unknown."""
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
        headline=f"the {name} {'refused' if said.ran and said.passed is False else 'could not run'} {what}.",
        message=f"With arguments {_shapes(trial.args)}: {message}" if several else message,
        next=said.next or ("" if said.passed is False else _ELSE),
        blocks=said.blocks,
        report=report,
    )


def _price_of_steps(task: Exercise, trial: judges.Trial, limit: judges.Budget) -> str:
    """Return a sentence on the number and cost of grid steps, for a budget of time; "" otherwise."""
    if limit.times_reference is None:
        return ""
    steps, fitted = sum(call.steps for call in trial.walk.calls), roofline.FITTED.get(task.chips[0])
    if fitted is None or not steps:
        return ""
    each, whole = text.duration(fitted.step_s), text.duration(steps * fitted.step_s)
    return f" Grid steps: {steps:,}. With two buffers, a step that copies costs at least {each}: {whole} in all."


def _shapes(case: tuple) -> str:
    shapes = [f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in jax.tree.leaves(case)]
    return f"of {shapes[0]}" if len(set(shapes)) == 1 else ", ".join(shapes)
