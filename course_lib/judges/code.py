"""What can be said about a kernel from its code, before it runs."""

from course_lib import grid
from course_lib.judges.verdict import Complaint

# A kernel longer than this comes from a Python loop that was unrolled; simulating it would take minutes.
MAX_KERNEL_LENGTH = 2000

# What may stand around a pallas_call: shapes and layout. Arithmetic belongs in the kernel.
_MOVES_DATA = {
    "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "device_put", "dynamic_slice",
    "dynamic_update_slice", "expand_dims", "gather", "iota", "pad", "reshape", "rev", "scatter", "slice", "split",
    "squeeze", "stack", "stop_gradient", "transpose", "unstack",
}  # fmt: skip


def complaint(walk: grid.Walk) -> Complaint | None:
    """The first thing that is wrong with a function's kernels, whatever their numbers are."""
    return not_a_kernel(walk) or too_long(walk) or ignores_an_output(walk) or writes_to_inputs(walk)


def not_a_kernel(walk: grid.Walk) -> Complaint | None:
    if not walk.jaxpr.jaxpr.outvars:
        return Complaint("It returned nothing.", "is there a `return` at the end?")
    if not walk.calls:
        return Complaint(
            "The result was computed without a kernel: there is no pallas_call in it.", "call pl.pallas_call."
        )
    if found := sorted(_arithmetic_outside(walk.jaxpr.jaxpr)):
        return Complaint(
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
    for call in walk.calls:
        used = {id(variable) for eqn in call.kernel.eqns for variable in eqn.invars}
        for variable, operand in zip(call.kernel.invars, call.operands, strict=False):
            if operand.role == "output" and id(variable) not in used:
                return Complaint(
                    f"{call.name} writes nothing to {operand.name}.",
                    f"write {operand.name}[...] = value, with [...] and one =. Without the [...] the line only gives "
                    "the value a name.",
                )
    return None


def writes_to_inputs(walk: grid.Walk) -> Complaint | None:
    for call in walk.calls:
        written = grid.follow(call).written
        for operand in call.inputs:
            if operand.name in written and operand.aliases is None:
                return Complaint(
                    f"{call.name} writes to its input {operand.name}. The simulators forgive that; on a chip the block "
                    "is a copy the pipeline owns, and what you put there may vanish or reach the caller's array.",
                    "compute into a value of your own, and write only to output refs.",
                )
    return None
