"""Whether a kernel masks the elements of an input before it combines them."""

from course_lib import grid
from course_lib.judges.reading import flow

_COMBINE = ("dot_general", "reduce_", "arg", "cumsum", "cumprod", "sort")


def is_masked(call: grid.Call, operand: grid.Operand) -> bool:
    """Whether everything that the kernel reads of ``operand`` passes through a jnp.where before elements are combined.

    Also true for an input whose elements are not combined at all.
    """
    ops, refs, _ = flow.operations(call.kernel)
    ref = refs[call.operands.index(operand)]
    unmasked = flow.spread(ops, flow.read(ops, ref), stops=chooses_or_stores)
    return not any(op.name.startswith(_COMBINE) and not unmasked.isdisjoint(op.inputs) for op in ops)


def combined(call: grid.Call, operand: grid.Operand) -> tuple[set[str], set[str]]:
    """Return the names of operations that combine an operand's elements: those behind a jnp.where, and the others."""
    ops, refs, _ = flow.operations(call.kernel)
    read = flow.read(ops, refs[call.operands.index(operand)])
    unmasked, all_of_it = flow.spread(ops, read, stops=chooses_or_stores), flow.spread(ops, read, stops=_stores)
    combining = [op for op in ops if op.name.startswith(_COMBINE) and not all_of_it.isdisjoint(op.inputs)]
    open_to_garbage = {op.name for op in combining if not unmasked.isdisjoint(op.inputs)}
    return {op.name for op in combining} - open_to_garbage, open_to_garbage


def is_chosen(call: grid.Call, ref: str) -> bool:
    """Whether the kernel's first read of a ref passes through a jnp.where before it is stored anywhere.

    ``acc_ref[...] = jnp.where(first, 0, acc_ref[...]) + x`` reads unwritten memory, but drops the value.
    """
    ops, refs, _ = flow.operations(call.kernel)
    names = [r.name for r in (*call.operands, *call.scratch)]
    reads = [op for op in ops if op.name == "get" and ref in names and op.inputs[0] == refs[names.index(ref)]]
    values = flow.spread(ops, set(reads[0].outputs) if reads else set(), stops=chooses_or_stores)
    return bool(values) and not any(_stores(op) and not values.isdisjoint(op.inputs[1:]) for op in ops)


def mask_axes(call: grid.Call, operand: grid.Operand) -> set[int]:
    """Return the axes of the block whose indices decide a jnp.where on values read from the operand."""
    ops, refs, _ = flow.operations(call.kernel)
    values = flow.spread(ops, flow.read(ops, refs[call.operands.index(operand)]), stops=chooses_or_stores)
    asked = {op.inputs[0] for op in ops if op.name == "select_n" and not values.isdisjoint(op.inputs[1:])}
    shape = tuple(map(int, operand.block_shape))
    counts = [op for op in ops if op.name == "iota" and op.eqn.params["shape"] == shape]
    return {op.eqn.params["dimension"] for op in counts if not asked.isdisjoint(flow.spread(ops, set(op.outputs)))}


def chooses_or_stores(op: flow.Op) -> bool:
    return op.name == "select_n" or _stores(op)


def _stores(op: flow.Op) -> bool:
    """Whether an operation stores: a swap returns the old value, which does not depend on the stored one."""
    return op.name in ("swap", "masked_swap", "addupdate")
