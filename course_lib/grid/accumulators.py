"""What a kernel accumulates in VMEM across grid steps: which scratch refs and output blocks, and their contents.

A ref is an accumulator if some step stores a value computed from its old contents, that is, adds a part. A store that
does not depend on the old contents starts it again. Nothing is reported if it is uncertain which steps do what, as with
a condition on array values, a store into part of the ref, or a select.
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
    """A ref that is accumulated into over the S steps of a grid."""

    name: str
    output: bool  # an output block, which begins as garbage at each visit; else scratch
    zeroed: np.ndarray  # bool[S]: the step restarts it with zeros
    constant: np.ndarray  # bool[S]: the step restarts it with another constant
    begun: np.ndarray  # bool[S]: the step restarts it with zeros, another constant or a first part
    left: np.ndarray  # bool[S]: the step finds garbage, because nothing has been stored there
    garbage: np.ndarray  # bool[S]: it contains garbage after the step, because nothing restarted it
    added: np.ndarray  # bool[S]: the step adds a part
    parts: np.ndarray  # int64[S]: parts in it after the step
    of: np.ndarray  # int64[S]: parts that will be in it before it is restarted or written back
    stored: dict[str, np.ndarray]  # output -> bool[S]: the step stores a value computed from it there


def accumulators(call: Call) -> tuple[Accumulator, ...]:
    """Return the refs that a kernel accumulates into, in the order it receives them; () if that is uncertain."""
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
    """Return the contents of one ref over the steps, or None if they are uncertain."""
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
        added[use.steps] = bool(origin.refs)  # restarted with a first part
    if late.any():
        return None  # restarted after a part was added in the same step
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
    """Return the parts so far in each step's group, and the parts in the whole group."""
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
