"""What a kernel carries from step to step in VMEM: a sum in a scratch ref or an output block, and what is in it when.

A ref is an accumulator if a step stores something into it that was computed from what it held: a part is added. A store
that does not ask what was there begins anew. Where it cannot be told for sure which steps do what (a condition on an
array's values, a store into a part of the ref, a select), nothing is said.
"""

import dataclasses

import numpy as np

from course_lib.grid.body import Use
from course_lib.grid.call import Call
from course_lib.grid.dataflow import Origin, stores
from course_lib.grid.following.follow import memory_uses
from course_lib.grid.unreadable import UnreadableCall


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Accumulator:
    """A ref that is added to over the S steps of a grid."""

    name: str
    output: bool  # an output block, which begins with garbage at each visit; else scratch
    zeroed: np.ndarray  # bool[S]: the step begins anew with zeros
    constant: np.ndarray  # bool[S]: it begins anew with another constant
    begun: np.ndarray  # bool[S]: it begins anew, with zeros, another constant or a first part
    left: np.ndarray  # bool[S]: what it finds is garbage: nobody has stored anything there
    garbage: np.ndarray  # bool[S]: garbage is in it after the step, for nobody has begun anew
    added: np.ndarray  # bool[S]: the step puts a part in
    parts: np.ndarray  # int64[S]: that are in it after the step
    of: np.ndarray  # int64[S]: parts that will be in it before it is begun anew or written back
    stored: dict[str, np.ndarray]  # output -> bool[S]: the step stores there what was computed from it


def accumulators(call: Call) -> tuple[Accumulator, ...]:
    """The refs that a kernel adds to over several steps, in the order in which it gets them; () where that is open."""
    origins = stores(call)
    outputs = {o.name: o for o in call.outputs if o.memory_space == "vmem" and o.pipelined and not o.aliases}
    names = [*outputs, *(s.name for s in call.scratch if s.memory_space == "vmem")]
    candidates = [name for name in names if any(ref == name and name in o.refs for (_, ref), o in origins.items())]
    if call.steps < 2 or not candidates:
        return ()
    try:
        uses = memory_uses(call)
    except UnreadableCall:
        return ()
    found = [_accumulator(call, name, outputs, uses, origins) for name in candidates]
    return tuple(each for each in found if each is not None and each.parts.max() > 1)


def _accumulator(call: Call, name: str, outputs: dict, uses: tuple[Use, ...], origins: dict) -> Accumulator | None:
    """What is in one ref, or None where that cannot be told."""
    ours = [use for use in uses if name in (use.ref, use.source)]
    writes = [use for use in ours if use.kind == "write"]
    if any(use.kind not in ("read", "write") or not use.sure for use in ours) or not all(use.whole for use in writes):
        return None
    steps = call.steps
    zeroed, constant, begun, added, late = (np.zeros(steps, bool) for _ in range(5))
    for use in writes:
        origin: Origin | None = origins.get((id(use.eqn), name))
        if origin is None or name in origin.perhaps:
            return None
        if name in origin.refs:
            added[use.steps] = True
            continue
        late[use.steps] |= added[use.steps] | begun[use.steps]
        begun[use.steps] = True
        zeroed[use.steps] = origin.zero
        constant[use.steps] = not origin.zero and not origin.refs
        added[use.steps] = bool(origin.refs)  # begun with a first part
    if late.any():
        return None  # begun anew after something was put in, in one step
    visit = outputs[name].changes if name in outputs else np.arange(steps) == 0
    group = np.cumsum(begun | visit) - 1
    parts, of = _counted(added, group)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    return Accumulator(
        name=name,
        output=name in outputs,
        zeroed=zeroed,
        constant=constant,
        begun=begun,
        left=visit,
        garbage=~begun[first][group],
        added=added,
        parts=parts,
        of=of,
        stored=_stored(call, name, uses, origins),
    )


def _counted(added: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parts so far in each step's group, and in the whole of it."""
    all_so_far = np.cumsum(added)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    before = (all_so_far - added)[first]
    return all_so_far - before[group], np.bincount(group, weights=added).astype(np.int64)[group]


def _stored(call: Call, name: str, uses: tuple[Use, ...], origins: dict) -> dict[str, np.ndarray]:
    found = {}
    for use in uses:
        origin = origins.get((id(use.eqn), use.ref)) if use.kind == "write" and use.ref != name else None
        if origin and name in origin.refs and any(use.ref == output.name for output in call.outputs):
            found.setdefault(use.ref, np.zeros(call.steps, bool))[use.steps] = True
    return found
