"""The four judges, asked in order up to the first that refuses."""

import functools
from collections.abc import Callable

from course_lib.judges.reading import sparse_core
from course_lib.judges.sparse_core import judge_sparse_core
from course_lib.judges.tpu import budget, compiling, numbers, races, simulator
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Verdict, skipped

# in the order in which they are asked
JUDGES: dict[str, Callable[[Trial], Verdict]] = {
    "numbers": numbers.ask,
    "simulator": simulator.ask,
    "races": races.ask,
    "compiler": compiling.ask,
}
_NO_BUDGET = "A budget is for kernels on a TensorCore: judges.sparse_core_traffic counts the bytes of this one."
NAMES = (*JUDGES, "protocol", "budget", "device")  # of every judge that can refuse an answer


def judge(fn: Callable, reference: Callable, *args, chip: str = "v5e", simulate: bool = True) -> list[Verdict]:
    """Return the verdicts of the four judges in order, up to and including the first that refuses.

    ``fn(*args)`` and ``reference(*args)`` return the same arrays; ``args`` are concrete arrays. ``chip``: the chip that
    the compiler compiles for, and whose sizes the function sees while it is traced. ``simulate``: whether the
    compiler's report has cycles, which takes a second more. Raises ValueError for an argument that is not an array, a
    reference that does not run with them, and an unknown chip. A kernel on SparseCores gets the verdicts of
    ``judge_sparse_core``.
    """
    return asked(Trial(fn, reference, args, chip, simulate=simulate))


def asked(trial: Trial, limits: budget.Budget | None = None) -> list[Verdict]:
    """Return the same for a Trial, followed by the budget judge's verdict if there are ``limits``."""
    if _on_sparse_cores(trial):
        verdicts = judge_sparse_core.asked(trial)
        passed = verdicts[-1].passed is not False
        return [*verdicts, skipped("budget", _NO_BUDGET)] if limits and passed else verdicts
    verdicts = []
    for ask in [*JUDGES.values(), *([functools.partial(budget.ask, budget=limits)] if limits else [])]:
        verdicts.append(ask(trial))
        if verdicts[-1].passed is False:
            break
    return verdicts


def _on_sparse_cores(trial: Trial) -> bool:
    try:
        return sparse_core.is_asked_for(trial.traced.jaxpr)
    except Exception:  # the numbers judge explains why it cannot be traced
        return False
