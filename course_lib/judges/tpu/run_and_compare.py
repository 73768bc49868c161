"""What the numbers, simulator and race judges have in common: running the kernels on the CPU, and comparing."""

import dataclasses
import functools
from collections.abc import Iterator

from course_lib import compat, errors, grid
from course_lib.judges.difference import difference, other_structure
from course_lib.judges.reading import copies, index_maps, memory, order, sparse_core
from course_lib.judges.running import garbage, semaphores
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Complaint, Verdict, complained, refused, skipped


def run_and_compare(judge: str, trial: Trial, interpret, filling: garbage.Filling | None = None) -> Verdict:
    """Run the function in one interpret mode on the CPU, and compare with the reference. ``filling``: see Traced."""
    walk = trial.walk
    try:
        got = trial.traced.run(interpret, trial.args, filling, unread=bool(order.shared_and_unread(walk)))
    except Exception as error:
        return _raised(judge, error, trial, "JAX's plain interpreter" if interpret is True else "JAX's TPU simulator")
    complaint = other_structure(walk, trial.returned) or difference(
        got,
        trial.wanted,
        walk,
        trial.reference,
        trial.args,
        trial.names,
        run=functools.partial(trial.traced.run, True) if interpret is True else None,
        tame=functools.partial(_with_likely_garbage, trial),
        probes=trial.probes,
        slips=trial.slips,
        suspects=trial.suspects,
        in_order=interpret is True,
    )
    return complained(judge, complaint) if complaint else Verdict(judge=judge, passed=True)


def simulate_and_compare(judge: str, trial: Trial, filling: garbage.Filling | None = None, **params) -> Verdict:
    """Run the function in the TPU simulator and compare, unless ``Trial.cannot_simulate`` says why not."""
    try:
        complaint = trial.cannot_simulate
    except Exception as error:
        return refused(judge, errors.explain(error), ran=False)
    if complaint:
        return complained(judge, complaint)
    if sparse_core.is_asked_for(trial.traced.jaxpr):
        return skipped(judge, sparse_core.WHY)
    return run_and_compare(judge, trial, compat.interpret_params(**params), filling)


def _raised(judge: str, error: Exception, trial: Trial, interpreter: str) -> Verdict:
    """Return a refusal if the error is known to be the kernel's; otherwise the interpreter lacks something."""
    explanation, walk = errors.explain(error), trial.walk
    better = _IN_OUR_WORDS.get(explanation.name, lambda walk: None)(walk)
    if better := semaphores.endless(walk, trial.traced.ledger) or better:
        return dataclasses.replace(complained(judge, better), raised=True)
    if isinstance(error, grid.UnreadableCall):
        said = skipped(judge, str(error))
    elif explanation.name in _LACKING:
        said = skipped(judge, f"{interpreter} cannot run this kernel. {explanation.what}")
    else:
        said = refused(judge, _with_buffer_name(explanation, walk))
    return dataclasses.replace(said, raised=True, reason=explanation.name)


def _with_likely_garbage(trial: Trial) -> Iterator[list]:
    """Yield the simulator's outputs with unwritten memory set to the arguments' minimum, to their maximum, and to 0."""
    for filling in garbage.likely(trial.args):
        yield trial.traced.run(compat.interpret_params(random_seed=0), trial.args, filling)


def _with_buffer_name(explanation: errors.Explanation, walk: grid.Walk) -> errors.Explanation:
    """Replace the simulator's "a buffer" by x_ref, because the simulator does not know the name."""
    kinds = {"read-outside": ("read",), "write-outside": ("write",)}.get(explanation.name, ())
    found = next((use for call in walk.calls if (use := memory.outside(call, kinds))), None)
    if found is None:
        return explanation
    name = found[0]
    what = explanation.what.replace("outside a buffer", f"outside {name}").replace("of a buffer of", "of")
    return dataclasses.replace(explanation, what=what)


def _outside(walk: grid.Walk) -> Complaint | None:
    return next((said for call in walk.calls if (said := index_maps.outside(call))), None)


# Errors that say what an interpreter lacks, and not what is wrong with a kernel; "" is an error without a row. When a
# kernel runs, it has been traced already. A size that is not known then was one that it may read, such as the length of
# a copy.
_LACKING = ("", "interpreter-bug", "cpu-lacks-it", "plain-interpreter", "program-id-in-when", "size-from-argument")

_RACES = (order.shared_block, order.carried_on, copies.early_use, copies.unordered)

# The grid can explain these errors of the simulator better, with the kernel's own names.
_IN_OUR_WORDS = {
    "block-outside": _outside,
    "": _outside,  # an output block below 0 fails an assertion of the simulator that has no message
    "revisit": order.revisit,
    "race": lambda walk: next(filter(None, (why(walk) for why in _RACES)), None),
}
