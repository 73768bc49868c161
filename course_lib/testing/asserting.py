"""``assert_kernel``: an AssertionError with the verdict in it."""

import warnings
from collections.abc import Callable

from course_lib import compiler, judges
from course_lib.compiler.tpu import name_of
from course_lib.testing.costs import Costs, KeptCosts


class KernelRefused(AssertionError):
    """A judge refuses a kernel; the message is what the judges said. ``verdicts``: of each that was asked."""

    def __init__(self, message: str, verdicts: list[judges.Verdict]):
        super().__init__(message)
        self.verdicts = verdicts


def assert_kernel(
    fn: Callable,
    reference: Callable,
    *args,
    chip: str = "v5e",
    budget: judges.Budget | None = None,
    costs: KeptCosts | None = None,
) -> compiler.Report | None:
    """Ask the four judges about ``fn``, then what it may cost; returns the compiler's Report.

    ``fn(*args)`` runs Pallas kernels for a TPU, ``reference(*args)`` returns the same arrays without; ``args`` are
    arrays, or pytrees of them (for a ``jax.ShapeDtypeStruct`` among them ``drawn`` draws one). ``chip``: whose compiler
    is asked, one of ``chips.NAMES``. ``budget``: the most it may cost; ``costs``: what it cost when that was last
    kept, which it may exceed by next to nothing (``KeptCosts``). Where libtpu does not exist (on a Mac, say) the
    compiler and what needs it are left out, with a warning, and None is returned.
    Raises KernelRefused, an AssertionError, and ValueError for arguments that make no question.
    """
    __tracebackhide__ = True
    trial = judges.Trial(fn, reference, judges.drawn(args), chip)
    verdicts = judges.asked(trial, budget)
    name = name_of(fn)
    if any(verdict.passed is False for verdict in verdicts):
        raise KernelRefused(f"{name} is refused.\n" + "\n".join(map(str, verdicts)), verdicts)
    for verdict in verdicts:
        if verdict.passed is None:
            warnings.warn(f"{name}: {verdict}", stacklevel=2)
    report = next((verdict.report for verdict in verdicts if verdict.report), None)
    if report is not None and costs is not None and (complaint := costs.complaint(Costs.of(report))):
        raise KernelRefused(f"{name} costs more than it did.\n{complaint}", verdicts)
    return report
