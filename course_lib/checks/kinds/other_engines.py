"""Exercises whose kernels run on SparseCores or on a GPU: the judges of that engine decide, in place of the four."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
from jax.experimental.pallas import tpu as pltpu

from course_lib import chips, compiler, environment, grid, judges
from course_lib.checks.around import around
from course_lib.checks.result import NOT_YET, Result, not_yet
from course_lib.compiler import progress
from course_lib.grid import jaxprs

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

SPARSE_CORE, GPU = "sparse_core", "gpu"
ENGINES = (SPARSE_CORE, GPU)
_ASK = {SPARSE_CORE: judges.judge_sparse_core, GPU: judges.judge_gpu}
_NEEDED = ("protocol", "numbers", "races")  # judges that run everywhere: no answer passes without them
_ELSE = "write that part in another way: an answer passes only if every judge of the exercise can run it."
_OUTSIDE = "part of it is not in the kernel."


def heard(task: Exercise, fn: Callable) -> tuple[Result | None, list[judges.Verdict], compiler.Report | None]:
    """Return (the first refusal or None, the verdicts before it, the compiler's report on the first arguments).

    The first case is judged for every one of the exercise's chips, and the others for the first chip; each is then
    judged by the budget, if there is one.
    """
    said: list[judges.Verdict] = []
    for number, case in enumerate(task.arguments()):
        for chip in task.chips[: 1 if number else None]:
            if complaint := _outside(task, fn, case, chip):
                return not_yet(task.id, _OUTSIDE, *complaint), said, None
            with progress.shown(f"judging {task.id} for {chip}"):
                verdicts = _ASK[task.engine](fn, task.reference, *case, chip=chip, slips=task.slips)
            for verdict in verdicts:
                if verdict.passed is False or (verdict.passed is None and verdict.judge in _NEEDED):
                    return _refused(task, verdict, chip), said, verdict.report
            said += verdicts
            if task.budget is not None:
                verdict = _budget(task, fn, case, chip)
                if not verdict.passed:
                    return _refused(task, verdict, chip), said, None
                said.append(verdict)
    return None, said, next((verdict.report for verdict in said if verdict.report), None)


def walk(task: Exercise, fn: Callable, case: tuple) -> grid.Walk:
    """Return a walk without steps: the kernels of these engines have none in order. Raises what tracing raises."""
    return grid.Walk(calls=(), jaxpr=traced(task, fn, case, task.chips[0]), result=None)


def traced(task: Exercise, fn: Callable, case: tuple, chip: str):
    """Return the jaxpr of ``fn(*case)`` for a chip of the exercise's engine. Raises what tracing raises."""
    if task.engine == GPU:
        with chips.gpu_target(chip).target(), pltpu.force_tpu_interpret_mode(False):
            return jax.make_jaxpr(lambda *args: fn(*args))(*case)
    return grid.trace(fn, *case, chip=chip)


def moved(task: Exercise, fn: Callable, case: tuple, chip: str) -> tuple[int, str]:
    """Return the bytes of HBM that an answer moves on SparseCores and by XLA's operations around them, and a sentence.

    The sentence says what moves them. Raises ValueError if they cannot be counted.
    """
    traffic = judges.sparse_core_traffic(fn, *case, chip=chip)
    outside = around(walk(task, fn, case))
    parts = [str(traffic)]
    parts += [f"XLA's {name}, outside the kernel, moves {count:,}" for name, count in outside.items()]
    return traffic.read + traffic.written + sum(outside.values()), "; ".join(parts) + "."


def stable(agreed: str) -> str:
    """Return what a pass prints of a GPU's judges where the line is stored or compared.

    The GPU's compiler is on few machines, so such a line does not say whether it was there.
    """
    compared = environment.under_nbval() and not environment.under_a_grader()  # our grader runs nbval too
    return (
        "numbers and races agree; so does the compiler, where it is installed."
        if compared or environment.building()
        else agreed
    )


def _outside(task: Exercise, fn: Callable, case: tuple, chip: str) -> tuple[str, str] | None:
    """Return a complaint about arithmetic outside the kernel; None if there is none, or if a judge says more."""
    try:
        found = traced(task, fn, case, chip)
    except Exception:
        return None  # the judges say why
    computed = [] if task.arithmetic_around else judges.arithmetic_in(found)
    if not computed or not any(True for _ in jaxprs.pallas_calls(found)):
        return None
    return (
        f"Part of the work is outside the kernel: {', '.join(computed)}.",
        "do it inside the kernel; around the call only shapes may change.",
    )


def _budget(task: Exercise, fn: Callable, case: tuple, chip: str) -> judges.Verdict:
    """Return the verdict on the bytes that an answer moves."""
    limit = task.budget.hbm_bytes
    limit = limit(*case) if callable(limit) else limit
    total, of_what = moved(task, fn, case, chip)
    if total <= limit:
        return judges.Verdict(judge="budget", passed=True)
    what = f"It moves {total:,} bytes of HBM; the budget is {limit:,}. {of_what}"
    next = "find the array of which more is moved than the exercise allows for it, and the line that moves it."
    return judges.Verdict(judge="budget", passed=False, message=what, next=next)


def _refused(task: Exercise, verdict: judges.Verdict, chip: str) -> Result:
    """Return the refusal as a result; it names the chip if the exercise has several."""
    verb = "could not run" if verdict.passed is None or not verdict.ran else "refused"
    on = f" for a {chip}" if len(task.chips) > 1 else ""
    next = (task.advise(verdict) if task.advise else "") or verdict.next or ("" if verdict.passed is False else _ELSE)
    return Result(
        id=task.id, outcome=NOT_YET, judge=verdict.judge, headline=f"the {verdict.judge} judge {verb} it{on}.",
        message=verdict.message, next=next, report=verdict.report,
    )  # fmt: skip
