"""The numbers judge: the plain interpreter beside the reference, or the TPU simulator if that one lacks something."""

from collections.abc import Callable

from course_lib import errors, grid
from course_lib.judges.reading import malformed
from course_lib.judges.tpu.run_and_compare import run_and_compare, simulate_and_compare
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Verdict, complained, refused


def numbers_judge(fn: Callable, reference: Callable, *args, chip: str = "v5e") -> Verdict:
    """Refuse a kernel whose values differ from ``reference``, that writes to its inputs, or that is no kernel."""
    return ask(Trial(fn, reference, args, chip))


def ask(trial: Trial) -> Verdict:
    """Return the numbers judge's verdict."""
    try:
        walk = trial.walk
    except Exception as error:
        return refused("numbers", errors.explain(error), ran=False)
    if complaint := malformed.complaint(walk):
        return complained("numbers", complaint)
    said = None
    if not _carries_scalars(walk):
        said = run_and_compare("numbers", trial, interpret=True)
        if not said.raised:
            return said
    simulated = simulate_and_compare("numbers", trial, random_seed=0)  # which has what the plain interpreter lacks
    return said if said and said.passed is False and simulated.raised and simulated.passed is None else simulated


def _carries_scalars(walk: grid.Walk) -> bool:
    """Whether a kernel writes to its prefetched arrays for its next steps, which the plain interpreter forgets."""
    try:
        return any(
            {o.name for o in call.operands if o.role == "prefetch"} & grid.body(call).written
            for call in walk.calls
            if call.steps > 1
        )
    except grid.UnreadableCall:
        return False
