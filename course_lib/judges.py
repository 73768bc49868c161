"""Four judges for a kernel: a reference, the TPU simulator, two racing cores, the real v5e compiler.

No single judge sees every bug, so ``judge`` asks them in that order and stops at the first that refuses:

reference   the plain interpreter against the reference function: is the arithmetic right, is it done in a
            kernel, are the inputs left alone?
simulator   JAX's TPU simulator: memory that starts as NaN, the real grid order, blocks outside the array, output
            blocks that are left and visited again
races       the simulator with two cores and a race detector
compiler    libtpu for a v5e: legal blocks, enough VMEM, operations the chip has

Every judge takes ``(fn, reference, *args)`` with concrete arrays and returns one Verdict.
"""

import contextlib
import dataclasses
import io
import logging
import re
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import tpu as pltpu

from course_lib import compat, compiler, errors, grid

# Without this, XLA for the CPU rewrites x * mask into a select, and a kernel that masks NaN by multiplying looks
# right, which it is not on the chip.
_CPU_OPTIONS = {"xla_disable_hlo_passes": "algsimp"}

# A kernel longer than this comes from a Python loop that was unrolled; simulating it would take minutes.
MAX_KERNEL_LENGTH = 2000

# Relative tolerance of one rounding, as eps of the dtype; a result may be a few roundings off.
_ROUNDINGS = 4

# What may stand around a pallas_call: shapes and layout. Arithmetic belongs in the kernel.
_MOVES_DATA = {
    "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "device_put", "dynamic_slice",
    "dynamic_update_slice", "expand_dims", "gather", "iota", "pad", "reshape", "rev", "scatter", "slice", "split",
    "squeeze", "stack", "stop_gradient", "transpose", "unstack",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What one judge says. ``passed`` is None where the judge could not sit, and ``message`` says why."""

    judge: str
    passed: bool | None
    message: str = ""
    next: str = ""  # one thing to try
    ran: bool = True  # False: it could not even be traced, so there was nothing to judge
    report: compiler.Report | None = None  # the compiler judge's

    def __str__(self) -> str:
        said = {True: "passed", False: "refused", None: "skipped"}[self.passed]
        text = f"{self.judge}: {said}" + (f". {self.message}" if self.message else "")
        return errors.folded(text + (f"\nNext: {self.next}" if self.next else ""))


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


def reference_judge(fn: Callable, reference: Callable, *args) -> Verdict:
    """Refuses a kernel whose numbers differ from ``reference``, that writes to its inputs, or that is no kernel."""
    try:
        walk = grid.walk(fn, *args)
    except Exception as error:
        return _refused("reference", errors.explain(error), ran=False)
    if complaint := _not_a_kernel(walk) or _too_long(walk) or _ignores_an_output(walk) or _writes_to_inputs(walk):
        return Verdict(judge="reference", passed=False, message=complaint[0], next=complaint[1])
    return _compare("reference", fn, reference, args, walk, interpret=True)


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
        return _refused("compiler", _with_ref_names(report.error, fn, args))
    return Verdict(judge="compiler", passed=True, report=report)


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


JUDGES = {
    "reference": reference_judge,
    "simulator": simulator_judge,
    "races": races_judge,
    "compiler": compiler_judge,
}


def _refused(judge: str, explanation: errors.Explanation, ran: bool = True) -> Verdict:
    return Verdict(judge=judge, passed=False, message=explanation.what, next=explanation.advice, ran=ran)


def _not_a_kernel(walk: grid.Walk) -> tuple[str, str] | None:
    if not walk.jaxpr.jaxpr.outvars:
        return "It returned nothing.", "is there a `return` at the end?"
    if not walk.calls:
        return "The result was computed without a kernel: there is no pallas_call in it.", "call pl.pallas_call."
    if found := sorted(_arithmetic_outside(walk.jaxpr.jaxpr)):
        return (
            f"Part of the arithmetic stands outside the kernel: {', '.join(found)}.",
            "do it inside the kernel, on blocks; around the pallas_call only shapes may change.",
        )
    return None


def _arithmetic_outside(jaxpr) -> set[str]:
    found = set()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in grid.KERNELS:
            continue
        inner = list(grid.sub_jaxprs(eqn))
        if inner:
            found |= set().union(*map(_arithmetic_outside, inner))
        elif eqn.primitive.name not in _MOVES_DATA and not _is_index(eqn):
            found.add(eqn.primitive.name)
    return found


def _is_index(eqn) -> bool:
    """Arithmetic on a few integers: what jnp makes of x[i] on the way to a gather."""
    return all(v.aval.size <= 8 and v.aval.dtype.kind in "iub" for v in eqn.outvars)


def _too_long(walk: grid.Walk) -> tuple[str, str] | None:
    for call in walk.calls:
        if (length := sum(1 for _ in grid.equations(call.kernel))) > MAX_KERNEL_LENGTH:
            return (
                f"{call.name} is {length:,} operations long: a Python loop in it is written out step by step while it "
                "is traced, and neither the simulator nor the compiler can carry that.",
                "work on whole blocks, x_ref[...] is all of one; or loop with jax.lax.fori_loop.",
            )
    return None


def _ignores_an_output(walk: grid.Walk) -> tuple[str, str] | None:
    for call in walk.calls:
        used = {id(variable) for eqn in call.kernel.eqns for variable in eqn.invars}
        for variable, operand in zip(call.kernel.invars, call.operands, strict=False):
            if operand.role == "output" and id(variable) not in used:
                return (
                    f"{call.name} writes nothing to {operand.name}.",
                    f"write {operand.name}[...] = value, with [...] and one =. Without the [...] the line only gives "
                    "the value a name.",
                )
    return None


def _writes_to_inputs(walk: grid.Walk) -> tuple[str, str] | None:
    for call in walk.calls:
        written = grid.follow(call).written
        for operand in call.inputs:
            if operand.name in written and operand.aliases is None:
                return (
                    f"{call.name} writes to its input {operand.name}. The simulators forgive that; on a chip the block "
                    "is a copy the pipeline owns, and what you put there may vanish or reach the caller's array.",
                    "compute into a value of your own, and write only to output refs.",
                )
    return None


def _simulate(judge: str, fn: Callable, reference: Callable, args: tuple, **params) -> Verdict:
    try:
        walk = grid.walk(fn, *args)
    except Exception as error:
        return _refused(judge, errors.explain(error), ran=False)
    return _compare(judge, fn, reference, args, walk, interpret=compat.interpret_params(**params))


def _compare(judge: str, fn: Callable, reference: Callable, args: tuple, walk: grid.Walk, interpret) -> Verdict:
    """Run ``fn`` in one interpret mode on the CPU and compare with the reference."""
    try:
        got = _run(walk, interpret, args)
    except Exception as error:
        return _refused(judge, errors.explain(error))
    expected = reference(*args)
    want = [np.asarray(a) for a in jax.tree.leaves(expected)]
    if complaint := _other_structure(walk, expected) or _difference(got, want, [np.asarray(a) for a in args], walk):
        return Verdict(judge=judge, passed=False, message=complaint[0], next=complaint[1])
    return Verdict(judge=judge, passed=True)


def _run(walk: grid.Walk, interpret, args: tuple) -> list[np.ndarray]:
    """The outputs on the CPU, where the simulators live. Raises what the simulator raises; a race raises too."""
    run = jax.jit(lambda *a: grid.run(walk.jaxpr, interpret, *a), compiler_options=_CPU_OPTIONS)
    racing = interpret is not True and interpret.detect_races
    with jax.default_device(jax.devices("cpu")[0]), _quiet():
        try:
            outputs = [np.asarray(a) for a in jax.block_until_ready(run(*args))]
            if racing and compat.races_found():
                raise RuntimeError("RACE DETECTED")
        finally:
            if interpret is not True:
                pltpu.reset_tpu_interpret_mode_state()
    return outputs


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the simulator's own prints and tracebacks to ourselves: the verdict says it better."""
    logger = logging.getLogger("jax._src.callback")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def _other_structure(walk: grid.Walk, expected) -> tuple[str, str] | None:
    got, want = jax.tree.structure(walk.result), jax.tree.structure(expected)
    if got == want or got.num_leaves != want.num_leaves:  # the number of arrays has a sentence of its own
        return None
    return f"It returns {_described(walk.result)}; it should return {_described(expected)}.", "look at the return line."


def _described(result) -> str:
    if isinstance(result, (list, tuple, dict)):
        return f"a {type(result).__name__} of {len(result)}"
    return "an array"


def _difference(got: list, want: list, args: list, walk: grid.Walk) -> tuple[str, str] | None:
    """(what is wrong and where, what to try), or None if every output is right."""
    if len(got) != len(want):
        return f"It returns {len(got)} arrays; it should return {len(want)}.", "look at out_shape."
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        name = "The output" if len(want) == 1 else f"Output {number}"
        if g.shape != w.shape:
            return f"{name} has shape {g.shape}; it should be {w.shape}.", "look at out_shape."
        if g.dtype != w.dtype:
            return f"{name} is {g.dtype}; it should be {w.dtype}.", "look at the dtype in out_shape."
        if (wrong := ~close(g, w)).any():
            return _where(name, g, w, wrong, walk), _advice(g, w, wrong, args, walk)
    return None


def close(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """bool of the arrays' shape: equal, or within a few roundings of the dtype. NaN equals NaN and nothing else."""
    if got.dtype.kind in "iub":
        return got == want
    eps = float(jnp.finfo(want.dtype).eps)
    g, w = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(g - w) <= _ROUNDINGS * eps * np.maximum(np.abs(w), 1e-30)
    near &= np.isfinite(g) & np.isfinite(w)  # an infinite tolerance would forgive everything
    return near | (g == w) | (np.isnan(g) & np.isnan(w))


def _where(name: str, got: np.ndarray, want: np.ndarray, wrong: np.ndarray, walk: grid.Walk) -> str:
    """Where an output is first wrong: the element, and the block and step that wrote it if there are several."""
    first = _first(wrong)
    at = f" at [{', '.join(map(str, first))}]" if first else ""
    value = f"{name}{at} is {_show(got[first])}; it should be {_show(want[first])}."
    if strayed := _outside(walk):
        return f"{value} {strayed}"
    return f"{_block_at(first, got.shape, walk)}{value} {int(wrong.sum()):,} of {wrong.size:,} elements are wrong."


def _advice(got: np.ndarray, want: np.ndarray, wrong: np.ndarray, args: list, walk: grid.Walk) -> str:
    """One thing to try, from what the wrong numbers look like."""
    first = _first(wrong)
    if _outside(walk):
        return "an index map returns block numbers, counted from 0: not element numbers, and none past the last block."
    if (name := _read_before_written(walk)) and _unwritten(got[first]):
        return f"{name} is read before anything has been written to it; `+=` reads too. Write it with = first."
    if _unwritten(got[first]):
        return (
            "that is memory nothing has written: a buffer starts as NaN (an integer one as its largest value). "
            "Check that every element of every output block is written."
        )
    for number, arg in enumerate(args):
        if arg.shape == got.shape and arg.dtype == got.dtype and (arg == got).all():
            return f"the output equals argument {number}, element by element: was the rest left out?"
    if got.dtype.kind in "iu" and (np.abs(got.astype(float) - want) <= np.abs(want.astype(float)) * 2.0**-22).all():
        return (
            "integers this large are off by less than one part in four million: somewhere on the way they were "
            "float32, which holds 24 bits. Compute in the dtype you were given."
        )
    return "compute the first wrong element by hand, and compare with what the kernel reads at that step."


def _read_before_written(walk: grid.Walk) -> str:
    """The name of an output ref whose first use in its kernel is a read; "" if there is none."""
    for call in walk.calls:
        for variable, operand in zip(call.kernel.invars, call.operands, strict=False):
            first = next((e.primitive.name for e in call.kernel.eqns if variable in e.invars[:1]), "")
            if operand.role == "output" and first in ("get", "addupdate"):
                return operand.name
    return ""


def _first(wrong: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()


def _outside(walk: grid.Walk) -> str:
    """The first block that an index map asks for and the array does not have; "" if there is none."""
    for call in walk.calls:
        for operand in call.operands:
            if len(steps := operand.outside()):
                block = tuple(operand.indices[steps[0]].tolist())
                return (
                    f"At step {call.step(int(steps[0]))} the index map of {operand.name} asks for block {block}; the "
                    f"array has {' x '.join(map(str, operand.blocks))} blocks of shape {operand.block_shape}."
                )
    return ""


def _block_at(element: tuple[int, ...], shape: tuple[int, ...], walk: grid.Walk) -> str:
    call = walk.calls[-1]
    output = next((o for o in call.outputs if o.shape == shape), None)
    if output is None or call.steps == 1:
        return ""
    block = tuple(e // b for e, b in zip(element, output.block_shape, strict=True))
    steps = np.flatnonzero((output.indices == np.array(block)).all(axis=1))
    if not len(steps):
        return f"No grid step writes output block {block}. "
    return f"Output block {block}, written at step {call.step(int(steps[-1]))}, is wrong. "


def _unwritten(value) -> bool:
    if value.dtype.kind in "iu":
        return bool(value == np.iinfo(value.dtype).max)
    return value.dtype.kind != "b" and bool(np.isnan(value.astype(np.float64)))


def _show(value) -> str:
    return str(int(value)) if value.dtype.kind in "iu" else f"{float(value):.6g}"
