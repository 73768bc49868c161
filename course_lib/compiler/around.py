"""Notes on what XLA does around the kernels: arrays it transposes for them, and arrays it keeps in VMEM."""

from course_lib import cost, grid, text
from course_lib.compiler.dumps import hlo
from course_lib.compiler.report import Op

_AGAINST = (
    "XLA stores an array in the order of axes that needs the least padding, but a kernel needs row-major order. The "
    "copies disappear if the last axis is 128 or more, if the narrow axis is the one before it, or if a matmul "
    "produces or consumes the array. On a chip you can pass the layout to the outermost jax.jit "
    "(jax.experimental.layout), but compile_tpu uses its own jit"
)


def notes(module: hlo.Module, rows: tuple[Op, ...], walk: grid.Walk | None) -> list[str]:
    """Return notes on each kernel: copies that change layouts, arrays not in HBM, arrays that are mostly padding."""
    if walk is None:
        return []
    by_name = {row.name: row for row in rows}
    found = [(op, walk.calls[op.call]) for op in module.ops if op.call is not None and op.call < len(walk.calls)]
    said = []
    for op, call in found:
        kept = kept_in_vmem(op, call)
        said += [_turned(op, call, by_name), _kept(kept, call), *cost.padding_of_call(call, without=kept)]
    return [note for note in dict.fromkeys(said) if note]


def kept_in_vmem(op: hlo.HloOp, call: grid.Call) -> list[str]:
    """Return the operands of a kernel that XLA keeps in VMEM because an op before or after it uses them too."""
    given = _given(call)
    sides = [*zip(op.operands[-len(given) :], given, strict=False), *zip(op.results, call.outputs, strict=False)]
    return [operand.name for size, operand in sides if size == 0 and operand.shape]


def _kept(kept: list[str], call: grid.Call) -> str:
    blocks = [o.name for o in call.operands if o.name in kept and o.role != "prefetch" and o.memory_space != "smem"]
    if not blocks:
        return ""
    they = "it" if len(blocks) == 1 else "them"
    return f"XLA keeps {' and '.join(blocks)} of {call.name} in VMEM, so its HBM bytes do not count {they}."


def _turned(op: hlo.HloOp, call: grid.Call, rows: dict[str, Op]) -> str:
    """Say which arrays of a kernel XLA transposes, what each copy costs, and how to avoid them."""
    if not op.turned:
        return ""
    given = _given(call)
    first = len(op.operands) - len(given)  # sizes of the grid come before
    copies = []
    for side, number, copy in op.turned:
        refs, n = (given, number - first) if side == "in" else (call.outputs, number)
        name = refs[n].name if 0 <= n < len(refs) else "an array"
        copies.append(f"{name} {'before' if side == 'in' else 'after'} it ({_price(copy, rows.get(copy))})")
    return f"XLA transposes arrays for {call.name}: {', '.join(copies)}. {_AGAINST}."


def _price(name: str, row: Op | None) -> str:
    """Return the cost of an op, as far as it is known."""
    said = [name]
    if row is not None and row.cycles is not None:
        said.append(f"{row.cycles:,} cycles")
    if row is not None and row.seconds is not None:
        said.append(text.duration(row.seconds))
    if row is not None and row.hbm_bytes:
        said.append(f"{row.hbm_bytes:,} bytes")
    return ", ".join(said)


def _given(call: grid.Call) -> list[grid.Operand]:
    return [operand for operand in call.operands if operand.role != "output"]
