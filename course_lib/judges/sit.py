"""The judges, each a function of (fn, reference, *args) that returns one Verdict, and all of them in order."""

import dataclasses
import re
from collections.abc import Callable

import jax
import numpy as np

from course_lib import compat, compiler, errors, grid
from course_lib.judges import code
from course_lib.judges.compare import difference, other_structure
from course_lib.judges.run import run
from course_lib.judges.verdict import Verdict, refused


def judge(fn: Callable, reference: Callable, *args) -> list[Verdict]:
    """The verdicts of the four judges in order, up to and including the first that refuses.

    ``fn(*args)`` and ``reference(*args)`` return the same arrays; ``args`` are concrete arrays.
    """
    verdicts = []
    for sit in JUDGES.values():
        verdicts.append(sit(fn, reference, *args))
        if verdicts[-1].passed is False:
            break
    return verdicts


def numbers_judge(fn: Callable, reference: Callable, *args) -> Verdict:
    """Refuses a kernel whose numbers differ from ``reference``, that writes to its inputs, or that is no kernel."""
    try:
        walk = grid.walk(fn, *args)
    except Exception as error:
        return refused("numbers", errors.explain(error), ran=False)
    if complaint := code.complaint(walk):
        return Verdict(judge="numbers", passed=False, message=complaint[0], next=complaint[1])
    return _compare("numbers", fn, reference, args, walk, interpret=True)


def simulator_judge(fn: Callable, reference: Callable, *args) -> Verdict:
    """Refuses what the TPU simulator refuses, and numbers that come out wrong in its poisoned memory."""
    return _simulate("simulator", fn, reference, args, random_seed=0)


def races_judge(fn: Callable, reference: Callable, *args) -> Verdict:
    """Refuses a kernel in which two simulated cores touch the same memory unordered."""
    return _simulate("races", fn, reference, args, random_seed=1, num_cores_or_threads=2, detect_races=True)


def compiler_judge(fn: Callable, reference: Callable, *args) -> Verdict:
    """Refuses what the v5e compiler refuses. Its Report, with predicted cycles, is in ``.report``."""
    del reference  # the compiler does not run the kernel
    try:
        report = compiler.compile_tpu(fn, *args, chip="v5e")
    except compiler.Unavailable as error:
        return Verdict(judge="compiler", passed=None, message=str(error))
    if not report.ok:
        return refused("compiler", _with_ref_names(report.error, fn, args))
    return Verdict(judge="compiler", passed=True, report=report)


JUDGES = {
    "numbers": numbers_judge,
    "simulator": simulator_judge,
    "races": races_judge,
    "compiler": compiler_judge,
}


def _with_ref_names(explanation: errors.Explanation, fn: Callable, args: tuple) -> errors.Explanation:
    """Say x_ref where the compiler says input 0, if there is but one kernel it can mean."""
    try:
        calls = grid.walk(fn, *args).calls
    except Exception:  # it could not be traced: that is what the explanation is about
        return explanation
    if len(calls) != 1:
        return explanation
    names = [operand.name for operand in calls[0].inputs]
    what = re.sub(r"\binput (\d+)\b", lambda m: names[int(m[1])] if int(m[1]) < len(names) else m[0], explanation.what)
    return dataclasses.replace(explanation, what=what)


def _simulate(judge: str, fn: Callable, reference: Callable, args: tuple, **params) -> Verdict:
    try:
        walk = grid.walk(fn, *args)
    except Exception as error:
        return refused(judge, errors.explain(error), ran=False)
    return _compare(judge, fn, reference, args, walk, interpret=compat.interpret_params(**params))


def _compare(judge: str, fn: Callable, reference: Callable, args: tuple, walk: grid.Walk, interpret) -> Verdict:
    """Run ``fn`` in one interpret mode on the CPU and compare with the reference."""
    try:
        got = run(walk, interpret, args)
    except Exception as error:
        return refused(judge, errors.explain(error))
    expected = reference(*args)
    want = [np.asarray(a) for a in jax.tree.leaves(expected)]
    if complaint := other_structure(walk, expected) or difference(got, want, [np.asarray(a) for a in args], walk):
        return Verdict(judge=judge, passed=False, message=complaint[0], next=complaint[1])
    return Verdict(judge=judge, passed=True)
