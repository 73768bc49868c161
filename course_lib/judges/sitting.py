"""The four judges in order: the first that refuses speaks."""

from collections.abc import Callable

from course_lib.judges import compiling, numbers, simulator
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Verdict

# name -> what gives the verdict on a Trial, in the order in which they are asked
JUDGES: dict[str, Callable[[Trial], Verdict]] = {
    "numbers": numbers.sit,
    "simulator": simulator.sit,
    "races": simulator.sit_for_races,
    "compiler": compiling.sit,
}
NAMES = (*JUDGES, "budget", "device")  # of all that may speak in a Verdict


def judge(fn: Callable, reference: Callable, *args, chip: str = "v5e") -> list[Verdict]:
    """The verdicts of the four judges in order, up to and including the first that refuses.

    ``fn(*args)`` and ``reference(*args)`` return the same arrays; ``args`` are concrete arrays. ``chip``: whose
    compiler is asked, and whose sizes the function sees while it is traced. Raises ValueError for an argument that is
    no array, for a reference that does not run with them, and for an unknown chip.
    """
    trial, verdicts = Trial(fn, reference, args, chip), []
    for sit in JUDGES.values():
        verdicts.append(sit(trial))
        if verdicts[-1].passed is False:
            break
    return verdicts
