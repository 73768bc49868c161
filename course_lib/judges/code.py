"""What can be said about a kernel from its code, before it runs."""

from course_lib import grid
from course_lib.grid import jaxprs
from course_lib.judges.verdict import Complaint

# A longer grid would keep the simulators busy for minutes.
MAX_STEPS = 50_000

# A kernel longer than this comes from a Python loop that was unrolled; simulating it would take minutes.
MAX_KERNEL_LENGTH = 2000

# What may stand around a pallas_call: shapes and layout. Arithmetic belongs in the kernel.
_MOVES_DATA = {
    "bitcast_convert_type", "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "device_put",
    "dynamic_slice", "dynamic_update_slice", "empty", "expand_dims", "gather", "iota", "name", "optimization_barrier",
    "pad", "reshape", "rev", "scatter", "slice", "split", "squeeze", "stack", "stop_gradient", "tile", "transpose",
    "unstack",
}  # fmt: skip


def complaint(walk: grid.Walk) -> Complaint | None:
    """The first thing that is wrong with a function's kernels, whatever their numbers are."""
    return not_a_kernel(walk) or bad_grid(walk) or too_long(walk) or ignores_an_output(walk) or writes_to_inputs(walk)


def not_a_kernel(walk: grid.Walk) -> Complaint | None:
    if not walk.jaxpr.jaxpr.outvars:
        return Complaint("It returned nothing.", "is there a `return` at the end?")
    used = _used(walk.jaxpr.jaxpr)
    if not any(id(v) in used for kernel in grid.pallas_calls(walk.jaxpr.jaxpr) for v in kernel.outvars):
        return Complaint(
            "The result was computed without a kernel: no pallas_call has a part in it.", "call pl.pallas_call."
        )
    if found := sorted(_arithmetic_outside(walk.jaxpr.jaxpr)):
        return Complaint(
            f"Part of the arithmetic stands outside the kernel: {', '.join(found)}.",
            "do it inside the kernel, on blocks; around the pallas_call only shapes may change.",
        )
    return None


def _arithmetic_outside(jaxpr) -> set[str]:
    """The arithmetic around the kernels that a result depends on; not that which only says where numbers lie."""
    return _arithmetic(jaxpr, [True] * len(jaxpr.outvars))[0]


def _arithmetic(jaxpr, wanted: list[bool], in_loop: bool = False) -> tuple[set[str], list[bool]]:
    """(the operations that the wanted outputs are computed with, which inputs they take as values)."""
    found, values = set(), {v for v, want in zip(jaxpr.outvars, wanted, strict=True) if want and jaxprs.is_variable(v)}
    for eqn in reversed(jaxpr.eqns):
        name, wants = eqn.primitive.name, [v in values for v in eqn.outvars]
        if not any(wants):
            continue
        takes = [n not in _places(eqn) for n in range(len(eqn.invars))]
        if name not in grid.KERNELS:
            inner = None if name == "scan" else jaxprs.called(eqn)  # what a turn leaves, the next may take
            if inner is not None:
                inside, takes = _arithmetic(inner, wants, in_loop)
                found |= inside
            elif others := jaxprs.inside(eqn):
                found |= set().union(*(_arithmetic(o, [True] * len(o.outvars), in_loop=True)[0] for o in others))
            elif name not in _MOVES_DATA and not (in_loop and _counts(eqn)):
                found.add(name)
        values |= {v for v, take in zip(eqn.invars, takes, strict=True) if take and jaxprs.is_variable(v)}
    return found, [v in values for v in jaxpr.invars]


def _counts(eqn) -> bool:
    """Whether an operation makes one integer or bool: a loop counts its turns."""
    return all(v.aval.shape == () and v.aval.dtype.kind in "iub" for v in eqn.outvars)


def _places(eqn) -> range | list[int]:
    """Which inputs of an operation say where, and not what: indices, and integers that a kernel has in SMEM."""
    first = {"gather": 1, "dynamic_slice": 1, "dynamic_update_slice": 2, "scatter": 1}.get(eqn.primitive.name)
    if first is not None:
        return range(first, first + 1 if eqn.primitive.name == "scatter" else len(eqn.invars))
    if eqn.primitive.name == "cond":  # which branch
        return range(1)
    if eqn.primitive.name == "pallas_call":
        first = eqn.params["grid_mapping"].num_dynamic_grid_bounds
        refs = eqn.params["jaxpr"].invars[: len(eqn.invars) - first]
        steers = [grid.space_of(v.aval) == "smem" and v.aval.dtype.kind in "iu" for v in refs]
        return [first + n for n, steer in enumerate(steers) if steer]
    return range(0)


def bad_grid(walk: grid.Walk) -> Complaint | None:
    for call in walk.calls:
        if not call.steps:
            return Complaint(
                f"The grid {call.grid} of {call.name} has no steps.",
                "is a size rounded down? 5 // 8 is 0; pl.cdiv(5, 8), which is 1, counts the last block too.",
            )
        if call.steps > MAX_STEPS:
            return Complaint(
                f"The grid {call.grid} of {call.name} has {call.steps:,} steps, too many for the "
                f"simulators: they walk {MAX_STEPS:,} at most.",
                "take larger blocks, or judge it with smaller arrays. compiler.compile_tpu takes any grid.",
            )
    return None


def too_long(walk: grid.Walk) -> Complaint | None:
    for call in walk.calls:
        if (length := sum(1 for _ in grid.equations(call.kernel))) > MAX_KERNEL_LENGTH:
            return Complaint(
                f"{call.name} is {length:,} operations long: a Python loop in it is written out step by step while it "
                "is traced, and neither the simulator nor the compiler can carry that.",
                "work on whole blocks, x_ref[...] is all of one; or loop with jax.lax.fori_loop.",
            )
    return None


def ignores_an_output(walk: grid.Walk) -> Complaint | None:
    kernels = list(grid.pallas_calls(walk.jaxpr.jaxpr))
    if len(kernels) != len(walk.calls):
        return None
    wanted = _used(walk.jaxpr.jaxpr)
    for eqn, call in zip(kernels, walk.calls, strict=True):
        used = {id(variable) for inner in call.kernel.eqns for variable in inner.invars}
        refs = zip(call.kernel.invars, call.operands, strict=False)
        written_by = [(v, o) for v, o in refs if o.role == "output"]
        for (variable, operand), result in zip(written_by, eqn.outvars, strict=False):
            if id(result) in wanted and id(variable) not in used:
                return Complaint(f"{call.name} writes nothing to {operand.name}.", _how_to_write(operand))
    return None


def _how_to_write(operand: grid.Operand) -> str:
    if operand.memory_space == "hbm":
        return f"copy the result there: pltpu.sync_copy(buffer_ref, {operand.name})."
    return (
        f"write {operand.name}[...] = value, with [...] and one =. Without the [...] the line only gives the value a "
        "name. Is it written so? Then a Python `for` or `if` around it does nothing here."
    )


def _used(jaxpr) -> set[int]:
    """The ids of the variables that something takes, or that are returned, in the jaxprs inside too."""
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
        if changed is None:
            continue
        if not written & {output.name for output in call.outputs}:
            return Complaint(
                f"{call.name} writes to {changed}, which is an input, and to none of its outputs.",
                "refs come in a fixed order, whatever they are called: the inputs, then the outputs, then scratch.",
            )
        return Complaint(
            f"{call.name} writes to its input {changed}. The simulators forgive that; on a chip the block is a copy "
            "the pipeline owns, and what you put there may vanish or reach the caller's array.",
            "compute into a value of your own, and write only to output refs.",
        )
    return None
