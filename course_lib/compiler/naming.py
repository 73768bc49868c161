"""The learner's names for things: a kernel is called after its function, VMEM after its ref.

XLA calls a kernel after the function around it (``run.1``), and libtpu numbers its operands.
"""

import collections
import dataclasses

from course_lib import cost, grid
from course_lib.compiler.dumps import hlo
from course_lib.cost import Allocation
from course_lib.grid.jaxprs import inside


def ops(module: hlo.Module, jaxpr) -> dict[str, str]:
    """Return {XLA's name of each Pallas kernel: its function's name}; repeated names get a number."""
    kernels = [inside(eqn)[0].debug_info.func_name for eqn in grid.pallas_calls(jaxpr)]
    seen: collections.Counter[str] = collections.Counter()
    names = {}
    for op in module.ops:
        if op.call is not None and op.call < len(kernels):
            name = kernels[op.call]
            seen[name] += 1
            names[op.name] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return names


def allocations(pieces: tuple[Allocation, ...], module: hlo.Module, walk: grid.Walk | None) -> tuple[Allocation, ...]:
    """Return the pieces of VMEM under the names of the refs they hold, if those are certain."""
    calls = {op.name: call for op, call in _kernels(module, walk)}
    by_op = {op: [piece for piece in pieces if piece.op == op] for op in dict.fromkeys(piece.op for piece in pieces)}
    return tuple(
        piece
        for op, found in by_op.items()
        for piece in (_named(found, calls[op], walk.jaxpr) if op in calls else found)
    )


def _named(pieces: list[Allocation], call: grid.Call, jaxpr) -> list[Allocation]:
    """Name the pieces of one kernel: windows by number; scratch in order, if its sizes agree with our own count."""
    windows = _windows(call)
    try:
        scratch = [b for b in cost.vmem(grid.Walk(calls=(call,), jaxpr=jaxpr)) if not _is_window(b, call)]
    except grid.UnreadableCall:
        scratch = []
    kept = [piece for piece in pieces if piece.purpose == "scratch"]
    certain = [piece.bytes for piece in kept] == [buffer.bytes for buffer in scratch]
    names = iter(scratch if certain else ())
    return [
        _of_buffer(piece, next(names, None), call)
        if piece.purpose == "scratch"
        else dataclasses.replace(piece, name=windows.get(piece.name, piece.name))
        for piece in pieces
    ]


def _of_buffer(piece: Allocation, buffer: Allocation | None, call: grid.Call) -> Allocation:
    """Rename a scratch piece if it is one of the buffers of a pipeline in the kernel's body, which are its windows."""
    if buffer is None:
        return piece
    role = next((o.role for o in call.operands if o.name == buffer.name), None)
    purpose = piece.purpose if role is None else f"{role} window"
    return dataclasses.replace(piece, name=buffer.name, buffers=buffer.buffers, purpose=purpose)


def _is_window(buffer: Allocation, call: grid.Call) -> bool:
    return any(o.name == buffer.name and o.memory_space == "vmem" for o in call.operands)


def _kernels(module: hlo.Module, walk: grid.Walk | None) -> list[tuple[hlo.HloOp, grid.Call]]:
    if walk is None:
        return []
    return [(op, walk.calls[op.call]) for op in module.ops if op.call is not None and op.call < len(walk.calls)]


def _windows(call: grid.Call) -> dict[str, str]:
    """Return {libtpu's "input 0": name of the ref}; libtpu counts prefetched scalars among the inputs."""
    given = [operand for operand in call.operands if operand.role != "output"]
    names = {f"input {n}": operand.name for n, operand in enumerate(given)}
    return names | {f"output {n}": operand.name for n, operand in enumerate(call.outputs)}
