"""The judges, each a function of (fn, reference, *args) that returns one Verdict, and all of them in order."""

import dataclasses
import re
from collections.abc import Callable

from course_lib import compat, compiler, cost, errors, grid
from course_lib.judges import budget, code, copies, garbage, memory, order, watchdog
from course_lib.judges.difference import difference, other_structure
from course_lib.judges.interpreted import run
from course_lib.judges.tolerance import expected
from course_lib.judges.verdict import Complaint, Verdict, complained, refused
from course_lib.judges.walked import arrays, returned, walked

_INTERPRETER_BUG = "Did not ask for inval to be discharged"


def judge(fn: Callable, reference: Callable, *args) -> list[Verdict]:
    """The verdicts of the four judges in order, up to and including the first that refuses.

    ``fn(*args)`` and ``reference(*args)`` return the same arrays; ``args`` are concrete arrays.
    """
    args, verdicts = arrays(args), []
    for sit in JUDGES.values():
        verdicts.append(sit(fn, reference, *args))
        if verdicts[-1].passed is False:
            break
    return verdicts


def numbers_judge(fn: Callable, reference: Callable, *args) -> Verdict:
    """Refuses a kernel whose numbers differ from ``reference``, that writes to its inputs, or that is no kernel."""
    args = arrays(args)
    try:
        walk = walked(fn, *args)
    except Exception as error:
        return refused("numbers", errors.explain(error), ran=False)
    if complaint := code.complaint(walk):
        return complained("numbers", complaint)
    said = _compare("numbers", fn, reference, args, walk, interpret=True)
    if _INTERPRETER_BUG in said.message:  # a pipeline inside a pipeline: the simulator can run it
        return _compare("numbers", fn, reference, args, walk, interpret=compat.interpret_params(random_seed=0))
    return said


def simulator_judge(fn: Callable, reference: Callable, *args) -> Verdict:
    """Refuses what the TPU simulator refuses, copies that nobody waits for, and wrong numbers in poisoned memory."""
    args = arrays(args)
    said = _simulate("simulator", fn, reference, args, random_seed=0)
    if said.passed and garbage.is_told_by_nan(walked(fn, *args)):
        with garbage.that_is_a_number():
            if _simulate("simulator", fn, reference, args, random_seed=0).passed is False:
                return complained("simulator", garbage.COMPLAINT)
    return said


def races_judge(fn: Callable, reference: Callable, *args) -> Verdict:
    """Refuses a kernel in which two cores, or a core and a copy, touch the same memory unordered.

    Cores that share an output block are read off the grid; the rest is found by simulating two cores.
    """
    args = arrays(args)
    try:
        if complaint := order.shared_block(walked(fn, *args)):
            return complained("races", complaint)
    except Exception as error:
        return refused("races", errors.explain(error), ran=False)
    said = _simulate("races", fn, reference, args, random_seed=1, num_cores_or_threads=2, detect_races=True)
    if "UNIMPLEMENTED" in said.message:  # XLA for the CPU lacks a product of bfloat16s that two cores would need
        return _simulate("races", fn, reference, args, random_seed=1, detect_races=True)
    return said


def compiler_judge(fn: Callable, reference: Callable, *args, chips: tuple[str, ...] = ("v5e",)) -> Verdict:
    """Refuses what the compiler of one of the ``chips`` refuses. The first chip's Report is in ``.report``."""
    del reference  # the compiler does not run the kernel
    args, reports = arrays(args), []
    try:
        for chip in chips:
            reports.append(compiler.compile_tpu(fn, *args, chip=chip))
            if not reports[-1].ok:
                return _uncompiled(reports[-1], fn, args)
    except compiler.Unavailable as error:
        return Verdict(judge="compiler", passed=None, message=str(error))
    return Verdict(judge="compiler", passed=True, report=reports[0])


JUDGES = {
    "numbers": numbers_judge,
    "simulator": simulator_judge,
    "races": races_judge,
    "compiler": compiler_judge,
}


def _uncompiled(report: compiler.Report, fn: Callable, args: tuple) -> Verdict:
    """The refusal of a compiler, with the kernel's own names and, where VMEM is short, with what fills it."""
    try:
        walk = grid.walk(fn, *args)
    except Exception:  # it could not be traced: that is what the explanation is about
        return refused("compiler", report.error)
    explanation = _with_ref_names(report.error, walk)
    if explanation.name == "vmem" and cost.vmem(walk):
        explanation = dataclasses.replace(explanation, what=f"{explanation.what}\n{budget.table(walk)}")
    return dataclasses.replace(refused("compiler", explanation), report=report)


def _with_ref_names(explanation: errors.Explanation, walk: grid.Walk) -> errors.Explanation:
    """Say x_ref where the compiler says input 0, if there is but one kernel it can mean."""
    if len(walk.calls) != 1:
        return explanation
    what = explanation.what
    for said, role in ((r"\binput (\d+)\b", "input"), (r"One buffer \(prefetched SMEM operand (\d+)\)", "prefetch")):
        names = [operand.name for operand in walk.calls[0].operands if operand.role == role]
        what = re.sub(said, lambda m, n=names: n[int(m[1])] if int(m[1]) < len(n) else m[0], what)
    return dataclasses.replace(explanation, what=what)


def _with_buffer_name(explanation: errors.Explanation, walk: grid.Walk) -> errors.Explanation:
    """Say x_ref where the simulator says a buffer, which has no name for it."""
    kinds = {"read-outside": ("read",), "write-outside": ("write",)}.get(explanation.name, ())
    found = next((use for call in walk.calls if (use := memory.outside(call, kinds))), None)
    if found is None:
        return explanation
    name = found[0]
    what = explanation.what.replace("outside a buffer", f"outside {name}").replace("of a buffer of", "of")
    return dataclasses.replace(explanation, what=what)


def _simulate(judge: str, fn: Callable, reference: Callable, args: tuple, **params) -> Verdict:
    try:
        walk = walked(fn, *args)
    except Exception as error:
        return refused(judge, errors.explain(error), ran=False)
    if complaint := copies.complaint(walk) or order.revisit_in_a_pipeline(walk):  # two buffers may hide that
        return complained(judge, complaint)
    return _compare(judge, fn, reference, args, walk, interpret=compat.interpret_params(**params))


def _compare(judge: str, fn: Callable, reference: Callable, args: tuple, walk: grid.Walk, interpret) -> Verdict:
    """Run ``fn`` in one interpret mode on the CPU and compare with the reference."""
    try:
        got = run(walk, interpret, args)
    except Exception as error:
        explanation = errors.explain(error)
        if watchdog.STUCK in explanation.what:
            return complained(judge, _STUCK)
        if better := _IN_OUR_WORDS.get(explanation.name, lambda walk: None)(walk):
            return complained(judge, better)
        return refused(judge, _with_buffer_name(explanation, walk))
    result = returned(reference, args)
    want = expected(reference, args, result)
    complaint = other_structure(walk, result) or difference(got, want, walk, reference, args)
    return complained(judge, complaint) if complaint else Verdict(judge=judge, passed=True)


_STUCK = Complaint(
    "Nothing happens any more: the kernel waits for a signal that never comes.",
    "count the signals of each semaphore, and what is waited for: they must match.",
)


def _outside(walk: grid.Walk) -> Complaint | None:
    return next((said for call in walk.calls if (said := order.outside(call))), None)


_RACES = (order.shared_block, order.carried_on, copies.early_use, copies.unordered)

# What the simulator reports and the grid can say better, with the names of the kernel.
_IN_OUR_WORDS = {
    "block-outside": _outside,
    "": _outside,  # an output block below 0 stops the simulator itself, in an assertion without words
    "revisit": order.revisit,
    "race": lambda walk: next(filter(None, (why(walk) for why in _RACES)), None),
}
