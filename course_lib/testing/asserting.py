"""``assert_kernel``, which raises an AssertionError that contains the verdict."""

import warnings
from collections.abc import Callable, Sequence

from course_lib import compiler, judges
from course_lib.compiler.tpu import name_of
from course_lib.testing.costs import Costs, KeptCosts


class KernelRefused(AssertionError):
    """A judge's refusal of a kernel, with the verdicts as its message. ``verdicts``: one per judge that was asked."""

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
    mesh: Sequence[int] | None = None,
    **how,
) -> compiler.Report | None:
    """Ask the four judges about ``fn``, then check its costs; return the compiler's Report.

    ``fn(*args)`` runs Pallas kernels for a TPU, and ``reference(*args)`` computes the same arrays without them;
    ``args`` are arrays, or pytrees of them (``drawn`` replaces a ``jax.ShapeDtypeStruct`` by a random array). ``chip``
    is the chip to compile for, one of ``chips.NAMES``. ``budget`` is the most that ``fn`` may cost; ``costs`` are the
    costs last recorded, which it may exceed by 1 % (``KeptCosts``). If libtpu does not exist (on a Mac, for example),
    the compiler and the checks that need it are skipped with a warning, and None is returned. Another judge that cannot
    run the kernel is skipped with a warning too, as long as one of them has compared its values.

    A kernel that copies to other chips has a ``mesh``, and ``how`` says the rest: ``axes``, ``in_specs``, ``topology``
    and ``ring`` of ``judges.judge_chips``, which is asked instead. It needs as many CPU devices as the mesh, set in
    conftest.py: ``jax.config.update("jax_num_cpu_devices", 8)``. It has neither a budget nor costs.

    Raises KernelRefused, an AssertionError, and ValueError for arguments that the judges cannot use.
    """
    __tracebackhide__ = True
    if mesh is None:
        if how:
            raise ValueError(f"{next(iter(how))} is for kernels that copy to other chips: give mesh=(4,) as well.")
        verdicts = judges.asked(judges.Trial(fn, reference, judges.drawn(args), chip), budget)
    elif budget is not None or costs is not None:
        raise ValueError("budget and costs are for kernels of one chip: the simulator counts no copies to others.")
    else:
        verdicts = judges.judge_chips(fn, reference, *judges.drawn(args), mesh=mesh, **how)
    name = name_of(fn)
    if any(verdict.passed is False for verdict in verdicts):
        raise KernelRefused(f"{name} is refused.\n" + "\n".join(map(str, verdicts)), verdicts)
    if not any(verdict.passed for verdict in verdicts if verdict.judge in ("numbers", "simulator")):
        raise KernelRefused(
            f"{name} was not judged: no judge compared its values.\n" + "\n".join(map(str, verdicts)), verdicts
        )
    for verdict in verdicts:
        if verdict.passed is None:
            warnings.warn(f"{name}: {verdict}", stacklevel=2)
    report = next((verdict.report for verdict in verdicts if verdict.report), None)
    if report is not None and costs is not None and (complaint := costs.complaint(Costs.of(report))):
        raise KernelRefused(f"{name} costs more than it did.\n{complaint}", verdicts)
    return report
