"""Who has touched which elements of memory that several subcores share, and which of these accesses nothing orders.

The subcores of one SparseCore meet at barriers. Two of their accesses are ordered if a barrier lies between them.
Nothing orders subcores of different SparseCores before the kernel ends. A copy touches memory from its start until it
has been waited for.
"""

from typing import NamedTuple

import numpy as np

from course_lib.judges.sparse_core.faults import Fault
from course_lib.judges.sparse_core.memory import Part

_NOBODY = -1


class Access(NamedTuple):
    """One access, or several reads or additions that stand for one."""

    core: int | None  # None: subcores of several
    who: int | None  # None: several
    phase: int  # how many barriers of its core lie before it
    does: str  # "reads", "writes" or "adds to"
    words: str  # "Subcore (core 0, subcore 3) at line 12 of kernel"

    def may_meet(self, other: "Access") -> bool:
        """Whether nothing orders the two, and they are of different subcores."""
        if self.core is None or other.core is None or self.core != other.core:
            return True
        return self.phase == other.phase and (self.who is None or self.who != other.who)


class Sharing:
    """The last accesses to each element of one buffer."""

    def __init__(self, shape: tuple[int, ...]):
        self.accesses: list[Access] = []
        self.writers, self.readers = (np.full(shape, _NOBODY, np.int32) for _ in range(2))

    def note(self, part: Part, new: Access) -> None:
        """Note an access. Raises Fault if one before it may happen at the same time, and one of the two writes."""
        self._check(part, self.writers, new)
        if new.does == "reads":
            self._join(part, self.readers, new)
            return
        self._check(part, self.readers, new)
        if new.does == "adds to":
            self._join(part, self.writers, new)
        else:
            part.put(self.writers, self._number(new))

    def _join(self, part: Part, seen: np.ndarray, new: Access) -> None:
        """Note a read beside other reads, or an addition beside others: several subcores may do so at once."""
        before = part.of(seen)
        after = np.array(before)
        for number in np.unique(before):
            old = None if number == _NOBODY else self.accesses[number]
            both = _both(old, new) if old is not None and old.does == new.does else new
            if both is not old:
                after[before == number] = self._number(both)
        part.put(seen, after)

    def _number(self, access: Access) -> int:
        if not self.accesses or self.accesses[-1] != access:
            self.accesses.append(access)
        return len(self.accesses) - 1

    def _check(self, part: Part, seen: np.ndarray, new: Access) -> None:
        found = part.of(seen)
        if part.kept is not None:
            found = np.compress(part.kept, found, part.axis)
        for number in np.unique(found):
            if number == _NOBODY:
                continue
            old = self.accesses[number]
            if not old.may_meet(new) or (old.does == new.does == "adds to"):
                continue
            raise _fault(part, int(np.argmax((found == number).ravel())), found.shape, old, new)


def _both(old: Access, new: Access) -> Access:
    """Return one access that stands for both."""
    if old.core == new.core and old.phase < new.phase:
        return new
    if old.core is None or (old.core == new.core and old.who in (None, new.who)):
        return old
    core = old.core if old.core == new.core else None
    return old._replace(core=core, who=None)


def _fault(part: Part, place: int, shape: tuple[int, ...], old: Access, new: Access) -> Fault:
    at = list(np.unravel_index(place, shape))
    where = []
    for index in part.at:
        chosen = index if isinstance(index, int) else at.pop(0)
        if isinstance(index, np.ndarray):
            index = index if part.kept is None else index[part.kept]
            chosen = index[chosen]
        elif isinstance(index, slice):
            chosen = index.start + chosen * index.step
        where.append(str(int(chosen)))
    buffer = part.buffer
    what = f"{old.words} {old.does} {buffer.name}[{', '.join(where)}]"
    what += f", and {new.words[0].lower()}{new.words[1:]} {new.does} the same element: nothing orders the two."
    if buffer.space == "vmem_shared":
        return Fault(what, _SHARED_MEMORY)
    return Fault(what, _ONE_CORE if old.core == new.core else _TWO_CORES)


_SHARED_MEMORY = (
    "put plsc.subcore_barrier() between the two, or let each subcore have rows of its own. Several may add at once: "
    "pltpu.sync_copy(x, shared.at[indices], add=True)."
)
_ONE_CORE = (
    'give each subcore rows of its own, from lax.axis_index of both axes, or by core_axis_name=("core", "subcore") '
    "in pltpu.emit_pipeline. To add up rows, add into pltpu.VMEM_SHARED."
)
_TWO_CORES = (
    "divide the work by both axes of the mesh: SparseCores that do the same work write the same rows. If both have to "
    "add up for the same rows, give each a part of the result of its own."
)
