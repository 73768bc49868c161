"""Three judges of kernels on SparseCores: the protocol, the numbers, and the real compiler."""

from collections.abc import Callable

from course_lib import chips, errors, grid
from course_lib.judges.difference import difference, other_structure
from course_lib.judges.reading import sparse_core
from course_lib.judges.slips.slip import Slip
from course_lib.judges.sparse_core.evaluate import Run, evaluated
from course_lib.judges.sparse_core.faults import Fault, NotEvaluated
from course_lib.judges.sparse_core.traffic import Traffic
from course_lib.judges.tpu import compiling
from course_lib.judges.trial import Trial, arrays
from course_lib.judges.verdict import Complaint, Verdict, complained, refused, skipped

_WRITE_ONE = (
    "write a kernel for the vector subcores: pl.kernel(kernel, out_type=..., "
    'mesh=plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore"), scratch_types=[...]). They have '
    "no matrix unit: a copy takes rows by their indices, as in table_hbm.at[indices_ref]."
)


def judge_sparse_core(
    fn: Callable, reference: Callable, *args, chip: str = "v6e", slips: tuple[Slip, ...] = ()
) -> list[Verdict]:
    """Return the verdicts on a function whose kernels run on SparseCores, up to the first that refuses.

    ``fn(*args)`` calls ``pl.kernel`` over a ``plsc.VectorSubcoreMesh`` or ``plsc.ScalarSubcoreMesh``, and
    ``reference(*args)`` returns the same arrays in plain JAX. ``args`` are concrete arrays. ``chip``: "v5p", "v6e" or
    "tpu7x", whose mesh and vector width the function sees while it is traced. ``slips``: what likely mistakes would
    return, for the verdict on wrong values. The judges:

    protocol    what a chip may do differently from one run: an index outside its array, memory that is read or
                overwritten while a copy is under way, two subcores that touch one element in no order, a wait or a
                barrier without end, lanes that add to one element with one instruction, a pl.multiple_of that is none
    numbers     the values, computed in NumPy from the traced program, with the bytes of HBM that it moves
    compiler    libtpu for the chip

    The evaluator has no semaphores between subcores and no copies to other devices: with these, protocol and numbers
    are skipped and say so. Raises ValueError for an argument that is not an array, a reference that does not run, an
    unknown chip, and one without SparseCores.
    """
    _check(chip)
    trial = Trial(fn, reference, args, chip, slips=slips, simulate=False)
    trial.wanted  # noqa: B018  raises if the reference does not run
    return asked(trial)


def asked(trial: Trial) -> list[Verdict]:
    """Return the same for a Trial."""
    try:
        trial.traced  # noqa: B018
    except Exception as error:
        return [refused("protocol", errors.explain(error), ran=False)]
    verdicts = _run(trial)
    return verdicts if verdicts[-1].passed is False else [*verdicts, compiling.ask(trial)]


def sparse_core_traffic(fn: Callable, *args, chip: str = "v6e") -> Traffic:
    """Return the bytes of HBM that the SparseCores of a chip read and write for ``fn(*args)``, in whole granules.

    XLA's ops around the kernels are not counted. ``args`` are concrete arrays: indices decide what is moved. Raises
    ValueError for what ``judge_sparse_core`` would refuse or skip, and for an unknown chip or one without SparseCores.
    """
    _check(chip)
    args = arrays(args)
    try:
        return evaluated(grid.trace(fn, *args, chip=chip), args, chip).traffic
    except (Fault, NotEvaluated) as error:
        raise ValueError(f"The bytes cannot be counted. {error}") from error


def _check(chip: str) -> None:
    if chips.sparse_cores(chip) is None:
        some = [f'"{name}"' for name in chips.NAMES if chips.sparse_cores(name)]
        raise ValueError(f"chip is {chip!r}, for which JAX knows no SparseCores; it may be {', '.join(some)}.")


def _run(trial: Trial) -> list[Verdict]:
    """Return the verdicts on the protocol and the numbers."""
    traced = trial.traced
    if not sparse_core.is_asked_for(traced.jaxpr):
        return [complained("protocol", _not_there(traced.jaxpr))]
    try:
        run = evaluated(traced.jaxpr, trial.args, trial.chip)
    except NotEvaluated as why:
        return [skipped("protocol", str(why)), skipped("numbers", str(why))]
    except Fault as fault:
        return [complained("protocol", (_endless(trial) or fault).complaint)]
    passed = Verdict(judge="protocol", passed=True)
    walk = grid.Walk(calls=(), jaxpr=traced.jaxpr, result=traced.result)
    wrong = other_structure(walk, trial.returned)
    wrong = wrong or difference(run.outputs, trial.wanted, walk, trial.reference, trial.args, slips=trial.slips)
    if wrong:
        return [passed, complained("numbers", wrong)]
    return [passed, Verdict(judge="numbers", passed=True, message=_moved(run))]


def _not_there(jaxpr) -> Complaint:
    """Return the complaint about a function without a kernel on SparseCores."""
    if any(True for _ in grid.pallas_calls(jaxpr.jaxpr)):
        on_tensor_core = "There is no kernel on SparseCores: pl.pallas_call takes yours to the TensorCore."
        return Complaint(on_tensor_core, _WRITE_ONE)
    return Complaint("There is no kernel on SparseCores: XLA computes all of it, on the TensorCore.", _WRITE_ONE)


def _endless(trial: Trial) -> Fault | None:
    """Return the complaint about a wait or barrier without end: it explains more than a race that comes before."""
    try:
        evaluated(trial.traced.jaxpr, trial.args, trial.chip, checked=False)
    except Fault as fault:
        return fault
    except ValueError:  # NumPy cannot copy what reaches outside an array, which the checks have found
        return None
    return None


def _moved(run: Run) -> str:
    rows = f", {run.traffic.rows:,} rows of them by an index" if run.traffic.rows else ""
    return f"Moves {run.traffic.read:,} bytes from HBM and {run.traffic.written:,} to it{rows}."
