"""What a subcore reads and writes itself. Each rule takes (subcore, equation, inputs), and returns the outputs."""

import jax
import numpy as np

from course_lib.judges.sparse_core.arithmetic import expanded
from course_lib.judges.sparse_core.faults import Fault, NotEvaluated
from course_lib.judges.sparse_core.memory import Part
from course_lib.judges.sparse_core.subcore import Subcore


def _get(subcore: Subcore, eqn, ins: list) -> list:
    found = subcore.part(ins[0], jax.tree.unflatten(eqn.params["tree"], ins[1:]))
    subcore.touch(found, "reads")
    return [found.read()[()]]


def _swap(subcore: Subcore, eqn, ins: list) -> list:
    found = subcore.part(ins[0], jax.tree.unflatten(eqn.params["tree"], ins[2:]))
    old = found.read()[()]
    subcore.touch(found, "writes")
    found.write(ins[1])
    return [old]


def _addupdate(subcore: Subcore, eqn, ins: list) -> list:
    found = subcore.part(ins[0], jax.tree.unflatten(eqn.params["tree"], ins[2:]))
    subcore.touch(found, "writes")
    found.write(ins[1], add=True)
    return []


def _load_expanded(subcore: Subcore, eqn, ins: list) -> list:
    if not eqn.params["has_mask"]:
        raise NotEvaluated("The evaluator has a vector load with a mask only.")
    ref, *transforms, mask = ins
    found = subcore.part(ref, jax.tree.unflatten(eqn.params["tree"], transforms))
    subcore.touch(found, "reads")
    return [expanded(found.read(), np.asarray(mask))]


def _store_compressed(subcore: Subcore, eqn, ins: list) -> list:
    """Store, or add, the lanes of the mask one behind the other; without a mask all of them."""
    ref, x, *transforms = ins[:-1] if eqn.params["has_mask"] else ins
    found = subcore.part(ref, jax.tree.unflatten(eqn.params["tree"], transforms))
    old, x = found.read(), np.asarray(x)
    chosen = x[np.asarray(ins[-1])] if eqn.params["has_mask"] else x
    new = np.array(old)
    new[: len(chosen)] = old[: len(chosen)] + chosen if eqn.params["add"] else chosen
    subcore.touch(found, "writes")
    found.write(new)
    return [old]


def _gather(subcore: Subcore, eqn, ins: list) -> list:
    """Load from an address of its own in each lane."""
    ref, transforms, indices, mask = eqn.params["tree"].unflatten(ins)
    found, at, on = _lanes(subcore, ref, transforms, indices, mask)
    subcore.touch(found, "reads")
    view = found.view(found.buffer.array)
    return [np.where(on, view[tuple(np.where(on, i, 0) for i in at)], 0).astype(view.dtype)]


def _scatter(subcore: Subcore, eqn, ins: list) -> list:
    """Store to an address of its own in each lane, or add there."""
    ref, transforms, indices, x, mask = jax.tree.unflatten(eqn.params["tree"], ins)
    found, at, on = _lanes(subcore, ref, transforms, indices, mask)
    subcore.touch(found, "writes")
    if subcore.shared.checked:
        _check_lanes(subcore, found, at, on, eqn.params["add"])
    view, where = found.view(found.buffer.array), tuple(i[on] for i in at)
    if eqn.params["add"]:
        np.add.at(view, where, np.asarray(x)[on])
    else:
        view[where] = np.asarray(x)[on]
    return []


def _lanes(subcore: Subcore, ref, transforms, indices, mask) -> tuple[Part, list[np.ndarray], np.ndarray]:
    """Return the part that lanes choose from, the index of each lane on each axis, and which lanes count."""
    found, at = subcore.part(ref, transforms), [np.asarray(i) for i in indices]
    on = np.ones(at[0].shape, bool) if mask is None else np.asarray(mask)
    for axis, size in enumerate(found.view(found.buffer.array).shape):
        outside = on & ((at[axis] < 0) | (at[axis] >= size))
        if outside.any() and subcore.shared.checked:
            lane = int(np.argmax(outside))
            raise Fault(
                f"{subcore.name}: lane {lane}{subcore.line} has index {int(at[axis][lane])} for {found}, which has "
                f"{size:,} elements there.",
                "mask the lanes whose index is outside: mask=(index >= 0) & (index < size).",
            )
        at[axis] = np.clip(at[axis], 0, size - 1)
    return found, at, on


def _check_lanes(subcore: Subcore, found: Part, at: list[np.ndarray], on: np.ndarray, add: bool) -> None:
    """Raise Fault if two lanes that count name the same element."""
    seen: dict[tuple[int, ...], int] = {}
    for lane in map(int, np.flatnonzero(on)):
        place = tuple(int(index[lane]) for index in at)
        if (first := seen.setdefault(place, lane)) == lane:
            continue
        where = f"{found.buffer.name}[{', '.join(map(str, place))}] with one instruction"
        if add:
            raise Fault(
                f"{subcore.name}: lanes {first} and {lane}{subcore.line} add to {where}. JAX documents such an "
                "addition as atomic, but not that both lanes count.",
                "count equal values first: counts, last = plsc.scan_count(values, mask=...), then "
                "plsc.addupdate_scatter(ref, [values], counts, mask=last).",
            )
        raise Fault(
            f"{subcore.name}: lanes {first} and {lane}{subcore.line} write to {where}. JAX does not document which "
            "of the two stays.",
            "store each element from one lane: mask the others.",
        )


RULES = {
    "get": _get,
    "swap": _swap,
    "addupdate": _addupdate,
    "sc.load": _load_expanded,
    "sc.swap": _store_compressed,
    "sc.gather": _gather,
    "sc.scatter": _scatter,
}
