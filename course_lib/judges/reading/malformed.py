"""Mistakes that make a kernel no kernel, or impossible to run: read off its code."""

import numpy as np

from course_lib import compat, errors, grid
from course_lib.grid import jaxprs
from course_lib.judges.verdict import Complaint

# A longer grid would take the simulators minutes.
MAX_STEPS = 50_000

# A longer kernel comes from an unrolled Python loop, and would take the simulator minutes.
MAX_KERNEL_LENGTH = 2000

_UNFINISHED = "custom_lin"  # what JAX traces for a jvp of a custom_vjp; it refuses the function when it runs


def complaint(walk: grid.Walk) -> Complaint | None:
    """Report the first mistake in a function's kernels that does not depend on values."""
    rules = (not_a_kernel, bad_grid, too_long, ignores_an_output, writes_to_inputs, copies_to_another_dtype)
    return next((said for rule in rules if (said := rule(walk))), None)


def not_a_kernel(walk: grid.Walk) -> Complaint | None:
    if not walk.jaxpr.jaxpr.outvars:
        return Complaint("The function returned nothing.", "add a `return` at the end.")
    used = _used(walk.jaxpr.jaxpr)
    for eqn in grid.equations(walk.jaxpr.jaxpr):
        if eqn.primitive.name == _UNFINISHED and any(id(v) in used for v in eqn.outvars):
            refusal = "TypeError: can't apply forward-mode autodiff (jvp) to a custom_vjp function."
            said = errors.explain(refusal, compat.line_of(eqn))
            return Complaint(said.what, said.next)
    kernels = list(grid.pallas_calls(walk.jaxpr.jaxpr))
    over_refs = any(hasattr(v.aval, "inner_aval") for kernel in kernels for v in kernel.invars)  # pl.core_map
    if not over_refs and not any(id(v) in used for kernel in kernels for v in kernel.outvars):
        return Complaint(
            "The result was computed without a kernel: it does not depend on any pallas_call.",
            "call pl.pallas_call, and return what it computes.",
        )
    return None


def bad_grid(walk: grid.Walk) -> Complaint | None:
    for call in walk.calls:
        if not call.steps:
            return Complaint(
                f"The grid {call.grid} of {call.name} has no steps.",
                "check for a size that is rounded down: 5 // 8 is 0, but pl.cdiv(5, 8), which is 1, counts the last "
                "block too.",
            )
        if call.steps > MAX_STEPS:
            return Complaint(
                f"The grid {call.grid} of {call.name} has {call.steps:,} steps, too many for the simulators, which "
                f"run {MAX_STEPS:,} at most.",
                "take larger blocks, or judge it with smaller arrays. compiler.compile_tpu takes any grid.",
            )
    return None


def too_long(walk: grid.Walk) -> Complaint | None:
    for call in walk.calls:
        if (length := sum(1 for _ in grid.equations(call.kernel))) > MAX_KERNEL_LENGTH:
            return Complaint(
                f"{call.name} is {length:,} operations long: tracing unrolls its Python loops. The simulator accepts "
                f"{MAX_KERNEL_LENGTH:,}, because more would take minutes; the compiler may accept it.",
                "work on whole blocks (x_ref[...] is a whole block), or loop with jax.lax.fori_loop, which is traced "
                "for one iteration only.",
            )
    return None


def copies_to_another_dtype(walk: grid.Walk) -> Complaint | None:
    """Report a copy by hand between refs of two dtypes. A ref that is read by another dtype is not asked."""
    for call in walk.calls:
        for eqn in grid.equations(call.kernel):
            if eqn.primitive.name != "dma_start" or "Bitcast" in str(eqn.params["tree"]):
                continue
            dtypes = [np.dtype(v.aval.dtype).name for v in eqn.invars if _holds_numbers(v.aval)][:2]
            if len(set(dtypes)) == 2:
                return Complaint(
                    f"{call.name} copies {dtypes[0]} into a buffer of {dtypes[1]}. A copy moves bytes and does not "
                    "convert dtypes.",
                    "give the buffer the dtype of the source, x.dtype, and use .astype on the values you read.",
                )
    return None


def _holds_numbers(aval) -> bool:
    """Whether this is a ref, and not one of semaphores."""
    return hasattr(aval, "inner_aval") and isinstance(getattr(aval, "dtype", None), np.dtype)


def ignores_an_output(walk: grid.Walk) -> Complaint | None:
    kernels = list(grid.pallas_calls(walk.jaxpr.jaxpr))
    if len(kernels) != len(walk.calls):
        return None
    wanted = _used(walk.jaxpr.jaxpr)
    for eqn, call in zip(kernels, walk.calls, strict=True):
        used = {id(variable) for inner in call.kernel.eqns for variable in inner.invars}
        refs = list(zip(call.kernel.invars, call.operands, strict=False))
        written_by = [(v, o) for v, o in refs if o.role == "output"]
        for (variable, operand), result in zip(written_by, eqn.outvars, strict=False):
            through_input = any(o.aliases == operand.name and id(v) in used for v, o in refs)
            if id(result) in wanted and id(variable) not in used and not through_input:
                return Complaint(f"{call.name} writes nothing to {operand.name}.", _how_to_write(operand))
    return None


def _how_to_write(operand: grid.Operand) -> str:
    if operand.memory_space == "hbm":
        return (
            f"copy the result there: pltpu.sync_copy(buffer_ref, {operand.name}). emit_pipeline returns a function: "
            "check that you call that with the refs."
        )
    return (
        f"write {operand.name}[...] = value, with [...] and a single =. Without the [...], the line only names the "
        "value. If it is correct already, a Python `for` or `if` around it never runs it."
    )


def _used(jaxpr) -> set[int]:
    """Return the ids of the variables that are used or returned, in inner jaxprs too."""
    found = set(map(id, jaxpr.outvars))
    for eqn in jaxpr.eqns:
        found |= set(map(id, eqn.invars))
        if eqn.primitive.name not in grid.KERNELS:
            found |= set().union(*map(_used, jaxprs.inside(eqn)))
    return found


def writes_to_inputs(walk: grid.Walk) -> Complaint | None:
    for call in walk.calls:
        try:
            written = grid.body(call).written
        except grid.UnreadableCall:  # it is too long to follow
            continue
        changed = next((o.name for o in call.inputs if o.name in written and o.aliases is None), None)
        if changed is None or not call.outputs:  # a pl.core_map has none: it changes the refs that it is given
            continue
        if next(o for o in call.inputs if o.name == changed).memory_space == "hbm":
            return Complaint(
                f"{call.name} copies into its input {changed}, which a kernel must not change.",
                "the source comes first: make_async_copy(source, target, semaphore). Check the direction of this copy.",
            )
        if not written & {output.name for output in call.outputs}:
            return Complaint(
                f"{call.name} writes to {changed}, which is an input, and not to any of its outputs.",
                "refs come in a fixed order, whatever their names: the inputs, then the outputs, then scratch.",
            )
        return Complaint(
            f"{call.name} writes to its input {changed}. The simulators allow that, but on a chip the block is a copy "
            "that the pipeline owns: what you write there may vanish or reach the caller's array.",
            "keep results in a value, and write only to output refs.",
        )
    return None
