"""The race judge: parallel axes that share an output block, and two simulated cores with a race detector."""

import dataclasses
from collections.abc import Callable

import numpy as np

from course_lib import chips, errors
from course_lib.judges.reading import order
from course_lib.judges.tpu.run_and_compare import simulate_and_compare
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Verdict, complained, refused


def races_judge(fn: Callable, reference: Callable, *args, chip: str = "v5e") -> Verdict:
    """Refuse a kernel in which two cores, or a core and a copy, touch the same memory without an order.

    The grid shows which cores share an output block; simulating two cores finds the rest. They share every parallel
    axis, wherever it stands in the grid. An output block that two cores write and nobody reads is only remarked upon.
    So is a step that overwrites its input and that a chip with two cores repeats, unless ``chip`` has two and the
    result changes if the function is applied to it again: that of a ReLU does not.
    """
    return ask(Trial(fn, reference, args, chip))


def ask(trial: Trial) -> Verdict:
    """Return the race judge's verdict."""
    try:
        if complaint := order.shared_block(trial.walk):
            return complained("races", complaint)
        again = order.repeated_in_place(trial.walk)
        if again and chips.chip(trial.chip).cores > 1 and _differs_if_repeated(trial):
            return complained("races", again)
    except Exception as error:
        return refused("races", errors.explain(error), ran=False)
    said = simulate_and_compare("races", trial, random_seed=1, num_cores_or_threads=2, detect_races=True)
    if said.reason == "cpu-lacks-it":  # a bfloat16 matmul, which two simulated cores would need
        said = simulate_and_compare("races", trial, random_seed=1, detect_races=True)
    remarks = [order.shared_and_unread(trial.walk), again.what if again else ""]
    return dataclasses.replace(said, message=" ".join(filter(None, remarks))) if said.passed else said


def _differs_if_repeated(trial: Trial) -> bool:
    """Whether the result changes if it replaces an argument of its shape and dtype, whichever that is."""
    once = trial.traced.run(True, trial.args)
    kinds = [(array.shape, array.dtype) for array in trial.args]
    for out in once:
        for place in (n for n, kind in enumerate(kinds) if kind == (out.shape, out.dtype)):
            again = trial.traced.run(True, (*trial.args[:place], out, *trial.args[place + 1 :]))
            if all(np.array_equal(a, b, equal_nan=True) for a, b in zip(once, again, strict=True)):
                return False
    return True
