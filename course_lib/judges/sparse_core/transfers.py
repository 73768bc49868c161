"""The start of a copy, and the wait for it. Each rule takes (subcore, equation, inputs), and returns the outputs."""

import jax
import numpy as np

from course_lib.judges.sparse_core.copies import Copy
from course_lib.judges.sparse_core.faults import Fault, NotEvaluated
from course_lib.judges.sparse_core.memory import Part, check_inside, part
from course_lib.judges.sparse_core.subcore import Subcore


def _start(subcore: Subcore, eqn, ins: list) -> list:
    source, target, semaphore, _, device = jax.tree.unflatten(eqn.params["tree"], ins)
    if device is not None:
        raise NotEvaluated("The evaluator has no copies to other devices, cores or subcores.")
    source, target, add = subcore.part(source), subcore.part(target), bool(eqn.params.get("add", False))
    copy = Copy(source, target, add, _bytes(source, target), subcore.line)
    if subcore.shared.checked:
        _check(subcore, copy)
        subcore.note_copy(copy)
    else:
        copy.happen()
    subcore.shared.traffic.note(copy, subcore.shared.chip.granule_bytes, (subcore.core, subcore.number))
    subcore.copies.start(_semaphore(subcore, semaphore)[0], copy)
    return []


def _wait(subcore: Subcore, eqn, ins: list) -> list:
    source, target, semaphore, _, _ = jax.tree.unflatten(eqn.params["tree"], ins)
    source, target = (part(side, Part.read) for side in (source, target))
    key, name = _semaphore(subcore, semaphore)
    ended = subcore.copies.wait(key, name, _bytes(source, target), subcore.line)
    for copy in ended if subcore.shared.checked else ():  # else they have happened at once
        copy.happen()
    return []


def _bytes(source: Part, target: Part) -> int:
    """Return the bytes that a copy signals when it has arrived."""
    elements = target.size if target.indices is None else source.size
    return elements * target.buffer.array.itemsize


def _semaphore(subcore: Subcore, ref) -> tuple[tuple, str]:
    """Return which semaphore a ref names, and the name."""
    found = subcore.part(ref)
    at = tuple(i if isinstance(i, int) else i.start for i in found.at)
    return (found.buffer, at), str(found)


def _check(subcore: Subcore, copy: Copy) -> None:
    """Raise Fault if a copy must not start here."""
    whose = f"{subcore.name}{copy.line}"
    check_inside(copy.source, whose, "copies from")
    check_inside(copy.target, whose, "copies to")
    subcore.copies.check_read(copy.source, copy.line)
    if copy.add:
        subcore.copies.check_not_filled(copy.target, copy.line)
    else:
        subcore.copies.check_write(copy.target, copy.line)
    if copy.target.buffer.is_input:
        raise Fault(f"{whose} copies to {copy.target}, which is an input.", "copy to an output instead.")
    if copy.target.indices is not None and not copy.add:
        _check_distinct(copy.target, whose)


def _check_distinct(target: Part, whose: str) -> None:
    rows = target.indices if target.kept is None else target.indices[target.kept]
    values, counts = np.unique(rows, return_counts=True)
    if (counts > 1).any():
        row = f"{target.buffer.name}[{values[counts.argmax()]}]"
        raise Fault(
            f"{whose} scatters {int(counts.max())} rows to {row} with one copy, and nothing says which of them stays.",
            "make the indices of a scatter distinct, or add: pltpu.sync_copy(x, shared.at[indices], add=True) into "
            "pltpu.VMEM_SHARED.",
        )


RULES = {"dma_start": _start, "dma_wait": _wait}
