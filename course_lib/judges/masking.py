"""Whether a kernel chooses among the elements of an input before it sums them up."""

from course_lib import grid
from course_lib.judges import flow

_COMBINE = ("dot_general", "reduce_", "arg", "cumsum", "cumprod", "sort")


def is_masked(call: grid.Call, operand: grid.Operand) -> bool:
    """Whether whatever the kernel reads of ``operand`` goes through a jnp.where before elements are combined.

    True also for an input whose elements are not combined at all.
    """
    ops, refs, _ = flow.operations(call.kernel)
    ref = refs[call.operands.index(operand)]
    unmasked = flow.spread(ops, flow.read(ops, ref), stops=lambda op: op.name == "select_n" or _stores(op))
    return not any(op.name.startswith(_COMBINE) and not unmasked.isdisjoint(op.inputs) for op in ops)


def _stores(op: flow.Op) -> bool:
    """A store hands back what was there before, which is not made of what it stores."""
    return op.name in ("swap", "masked_swap", "addupdate")
