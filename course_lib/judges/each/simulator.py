"""The two judges that simulate a TPU: one core with poisoned memory, and two cores that race."""

import dataclasses
from collections.abc import Callable

from course_lib import compat, errors
from course_lib.judges.each.numbers import compared
from course_lib.judges.reading import copies, order, promises
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Verdict, complained, refused
from course_lib.judges.wrong import garbage


def simulator_judge(fn: Callable, reference: Callable, *args, chip: str = "v5e") -> Verdict:
    """Refuses what the TPU simulator refuses, copies that nobody waits for, and wrong numbers in poisoned memory.

    And a false ``pl.multiple_of``, where its value is known.
    """
    return sit(Trial(fn, reference, args, chip))


def races_judge(fn: Callable, reference: Callable, *args, chip: str = "v5e") -> Verdict:
    """Refuses a kernel in which two cores, or a core and a copy, touch the same memory unordered.

    Cores that share an output block are read off the grid; the rest is found by simulating two cores.
    """
    return sit_for_races(Trial(fn, reference, args, chip))


def sit(trial: Trial) -> Verdict:
    """The simulator judge's verdict."""
    said = _simulated("simulator", trial, random_seed=0)
    if said.passed and (complaint := promises.complaint(trial.walk)):  # in a simulation a false one does no harm
        return complained("simulator", complaint)
    if said.passed and (suspicion := garbage.suspicion(trial.walk)):
        filling, complaint = suspicion
        anew = dataclasses.replace(trial, like=None)  # what fills memory is compiled into a run
        with garbage.that_is(filling):
            if _simulated("simulator", anew, random_seed=0).passed is False:
                return complained("simulator", complaint)
    return said


def sit_for_races(trial: Trial) -> Verdict:
    """The races judge's verdict."""
    try:
        if complaint := order.shared_block(trial.walk):
            return complained("races", complaint)
    except Exception as error:
        return refused("races", errors.explain(error), ran=False)
    said = _simulated("races", trial, random_seed=1, num_cores_or_threads=2, detect_races=True)
    if said.reason == "cpu-lacks-it":  # a product of bfloat16s that two cores would need
        return _simulated("races", trial, random_seed=1, detect_races=True)
    return said


def _simulated(judge: str, trial: Trial, **params) -> Verdict:
    try:
        walk = trial.walk
    except Exception as error:
        return refused(judge, errors.explain(error), ran=False)
    if complaint := copies.complaint(walk) or order.revisit_in_a_pipeline(walk):  # two buffers may hide that
        return complained(judge, complaint)
    return compared(judge, trial, interpret=compat.interpret_params(**params))
