"""The numbers judge: the plain interpreter beside the reference."""

from collections.abc import Callable

from course_lib import compat, errors
from course_lib.judges.reading import malformed
from course_lib.judges.tpu.run_and_compare import run_and_compare
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
    said = run_and_compare("numbers", trial, interpret=True)
    if said.reason == "interpreter-bug":  # a pipeline inside a pipeline, which the simulator can run
        return run_and_compare("numbers", trial, interpret=compat.interpret_params(random_seed=0))
    return said
