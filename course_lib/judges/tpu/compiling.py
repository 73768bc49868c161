"""The compiler judge: libtpu's yes or no for a chip, in the kernel's own names."""

import dataclasses
import re
from collections.abc import Callable

from course_lib import compiler, cost, errors, grid
from course_lib.judges.reading import unrolling
from course_lib.judges.tpu import budget
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Verdict, refused, skipped


def compiler_judge(fn: Callable, reference: Callable, *args, chip: str = "v5e") -> Verdict:
    """Refuse what the compiler for ``chip`` refuses. Its Report is in ``.report``; ``reference`` is not used."""
    return ask(Trial(fn, reference, args, chip))


def ask(trial: Trial) -> Verdict:
    """Return the compiler judge's verdict."""
    try:
        trial.traced  # noqa: B018  refuse what cannot be traced, with or without a compiler on this machine
    except Exception as error:
        return refused("compiler", errors.explain(error))
    try:
        report = trial.report
    except compiler.Unavailable as error:
        return Verdict(judge="compiler", passed=None, message=str(error))
    if report.ok:
        return Verdict(judge="compiler", passed=True, report=report)
    if report.error is not None and report.error.name == "unreadable":  # it was not asked
        return skipped("compiler", report.error.what, report.error.next)
    return _uncompiled(report, trial)


def _uncompiled(report: compiler.Report, trial: Trial) -> Verdict:
    """Return the compiler's refusal in the kernel's own names, with a table of buffers if VMEM is short."""
    try:
        walk = trial.whole_walk
    except Exception:  # its grid cannot be read, so the names are unknown
        return refused("compiler", report.error)
    crashed = report.error.name == "crash"
    explanation = (crashed and unrolling.uneven(walk)) or _with_ref_names(report.error, walk)
    if explanation.name == "vmem" and cost.vmem(walk):
        explanation = dataclasses.replace(explanation, what=f"{explanation.what}\n{budget.table(walk)}")
    return dataclasses.replace(refused("compiler", explanation), report=report)


def _with_ref_names(explanation: errors.Explanation, walk: grid.Walk) -> errors.Explanation:
    """Replace the compiler's "input 0" by x_ref, if the function has only one kernel."""
    if len(walk.calls) != 1:
        return explanation
    what = explanation.what
    for said, role in ((r"\binput (\d+)\b", "input"), (r"One buffer \(prefetched SMEM operand (\d+)\)", "prefetch")):
        names = [operand.name for operand in walk.calls[0].operands if operand.role == role]
        what = re.sub(said, lambda m, n=names: n[int(m[1])] if int(m[1]) < len(n) else m[0], what)
    return dataclasses.replace(explanation, what=what)
