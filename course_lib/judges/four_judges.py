"""The four judges in order: the first that refuses speaks."""

import functools
from collections.abc import Callable

from course_lib.judges.tpu import budget, compiling, numbers, races, simulator
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Verdict

# name -> what gives the verdict on a Trial, in the order in which they are asked
JUDGES: dict[str, Callable[[Trial], Verdict]] = {
    "numbers": numbers.ask,
    "simulator": simulator.ask,
    "races": races.ask,
    "compiler": compiling.ask,
}
NAMES = (*JUDGES, "budget", "device")  # of all that may speak in a Verdict


def judge(fn: Callable, reference: Callable, *args, chip: str = "v5e") -> list[Verdict]:
    """The verdicts of the four judges in order, up to and including the first that refuses.

    ``fn(*args)`` and ``reference(*args)`` return the same arrays; ``args`` are concrete arrays. ``chip``: whose
    compiler is asked, and whose sizes the function sees while it is traced. Raises ValueError for an argument that is
    no array, for a reference that does not run with them, and for an unknown chip.
    """
    return asked(Trial(fn, reference, args, chip))


def asked(trial: Trial, limits: budget.Budget | None = None) -> list[Verdict]:
    """The same of a Trial; and behind the four the verdict of the budget's judge, where there are ``limits``."""
    verdicts = []
    for ask in [*JUDGES.values(), *([functools.partial(budget.ask, budget=limits)] if limits else [])]:
        verdicts.append(ask(trial))
        if verdicts[-1].passed is False:
            break
    return verdicts
