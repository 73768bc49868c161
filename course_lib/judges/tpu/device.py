"""The device judge: the chip itself, if there is one."""

from collections.abc import Callable

import jax
import numpy as np

from course_lib import chips, errors, grid
from course_lib.judges.difference import difference
from course_lib.judges.tolerance.expected import expected
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Verdict, complained, refused


def device_judge(fn: Callable, reference: Callable, *args, chip: str = "v5e") -> Verdict:
    """Refuse a kernel whose values are wrong on this machine's TPU; skipped without one.

    The MXU rounds float32 operands to bfloat16 unless a precision is asked for, so a matmul may be that far off.
    ``chip``: whose sizes the function sees while it is traced.
    """
    return ask(Trial(fn, reference, args, chip))


def ask(trial: Trial) -> Verdict:
    """Return the device judge's verdict."""
    if not chips.on_a_tpu():
        return Verdict(judge="device", passed=None, message="there is no TPU on this machine.")
    try:
        walk = trial.walk
        got = [np.asarray(a) for a in jax.jit(lambda *a: grid.run(walk.jaxpr, False, *a))(*trial.args)]
    except Exception as error:
        return refused("device", errors.explain(error))
    with jax.default_device(jax.devices("cpu")[0]):
        want = expected(trial.reference, trial.args, trial.returned, one_pass=True)
        complaint = difference(got, want, walk, trial.reference, trial.args)
    return complained("device", complaint) if complaint else Verdict(judge="device", passed=True)
