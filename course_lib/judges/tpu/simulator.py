"""The simulator judge: JAX's TPU simulator, one core with poisoned memory."""

from collections.abc import Callable

from course_lib.judges.reading import prefetched, promises
from course_lib.judges.running import garbage, semaphores
from course_lib.judges.tpu.run_and_compare import simulate_and_compare
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Verdict, complained


def simulator_judge(fn: Callable, reference: Callable, *args, chip: str = "v5e") -> Verdict:
    """Refuse what the TPU simulator refuses, copies without a wait, and values that are wrong in poisoned memory.

    Also refuse semaphores that are left above zero, a false ``pl.multiple_of``, and a prefetched array read below
    index 0, if the values are known.
    """
    return ask(Trial(fn, reference, args, chip))


def ask(trial: Trial) -> Verdict:
    """Return the simulator judge's verdict."""
    usual = garbage.Filling() if _runs_again(trial) else None  # so that the runs with other garbage are compiled too
    said = simulate_and_compare("simulator", trial, usual, random_seed=0)
    if said.passed and (complaint := semaphores.left_over(trial.walk, trial.traced.ledger)):
        return complained("simulator", complaint)
    if said.passed and (complaint := promises.complaint(trial.walk)):  # which a simulation ignores
        return complained("simulator", complaint)
    if said.passed and (complaint := prefetched.complaint(trial.walk)):
        return complained("simulator", complaint)
    if said.passed and trial.suspicion:
        for filling in trial.suspicion.fillings:
            if simulate_and_compare("simulator", trial, filling, random_seed=0).passed is False:
                return complained("simulator", trial.suspicion.complaint(filling))
    return said


def _runs_again(trial: Trial) -> bool:
    """Whether a kernel that passes is simulated with other garbage."""
    try:
        return trial.suspicion is not None
    except Exception:  # it cannot be read; if the simulation accepts it, this is raised once more
        return False
