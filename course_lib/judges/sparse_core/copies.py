"""The copies that one subcore has under way, and what it must not touch before it has waited for them."""

import collections
from typing import NamedTuple

import numpy as np

from course_lib.judges.sparse_core.faults import Fault
from course_lib.judges.sparse_core.memory import Part

_WAIT = "wait for the copy first: pltpu.async_copy(...) returns it, and .wait() ends it; pltpu.sync_copy does both."


class Copy(NamedTuple):
    """One copy under way."""

    source: Part
    target: Part
    add: bool
    bytes: int
    line: str  # " at line 9 of kernel", or ""

    def happen(self) -> None:
        """Move the data. Rows whose index is ignored stay as they are."""
        value, target = self.source.read(), self.target
        if self.source.kept is not None:
            target = _only(target, self.source.kept)
            value = np.compress(self.source.kept, value, self.source.axis)
        target.write(value, add=self.add)


class Copies:
    """The copies of one subcore by semaphore. A semaphore counts bytes; it does not know whose bytes they are."""

    def __init__(self, whose: str):
        self.whose = whose
        self.pending: dict[tuple, list[Copy]] = collections.defaultdict(list)
        self.waited: collections.Counter[tuple] = collections.Counter()

    def under_way(self) -> list[Copy]:
        return [copy for copies in self.pending.values() for copy in copies]

    def start(self, semaphore: tuple, copy: Copy) -> None:
        self.pending[semaphore].append(copy)

    def wait(self, semaphore: tuple, name: str, size: int, line: str) -> list[Copy]:
        """Return the copies that have surely ended behind a wait for ``size`` bytes: all of a semaphore, or none.

        Raises Fault if so many bytes never arrive.
        """
        copies = self.pending[semaphore]
        total = sum(copy.bytes for copy in copies)
        self.waited[semaphore] += size
        if self.waited[semaphore] > total:
            started = f"copies of {total:,} bytes are under way" if copies else "no copy is under way"
            raise Fault(
                f"{self.whose}{line} waits for {name}, and the wait never ends: {started} there, but "
                f"{self.waited[semaphore]:,} bytes are waited for.",
                "wait once for each copy, on the semaphore that it was started with, and for as many bytes.",
            )
        if self.waited[semaphore] == total:
            del self.waited[semaphore]
            return self.pending.pop(semaphore)
        return []

    def check_read(self, part: Part, line: str) -> None:
        """Raise Fault if a copy into this part has not been waited for."""
        for copy in self.under_way():
            if copy.target.overlaps(part):
                raise Fault(f"{self.whose}{line} reads {part} before the copy into it{self._of(copy)}", _WAIT)

    def check_write(self, part: Part, line: str) -> None:
        """Raise Fault if a copy out of this part, or into it, has not been waited for."""
        self.check_not_filled(part, line)
        for copy in self.under_way():
            reads = [copy.source, *filter(None, (copy.source.listed, copy.target.listed))]
            if any(read.overlaps(part) for read in reads):
                raise Fault(f"{self.whose}{line} writes {part} before the copy that reads it{self._of(copy)}", _WAIT)

    def check_not_filled(self, part: Part, line: str) -> None:
        """Raise Fault if a copy into this part, other than one that adds, has not been waited for."""
        for copy in self.under_way():
            if copy.target.overlaps(part) and not copy.add:
                raise Fault(f"{self.whose}{line} writes {part} before the copy into it{self._of(copy)}", _WAIT)

    def _of(self, copy: Copy) -> str:
        """Say that a copy has not ended for certain, and why if a semaphore is shared."""
        started = f", started{copy.line}," if copy.line else ""
        shared = next(copies for copies in self.pending.values() if any(other is copy for other in copies))
        if len(shared) > 1:
            return (
                f"{started} has surely ended: {len(shared)} copies share its semaphore, which counts bytes and not "
                "whose they are."
            )
        return f"{started} has been waited for."

    def left(self) -> Fault | None:
        """Return the complaint about copies that nobody has waited for when the subcore ends."""
        if not (copies := self.under_way()):
            return None
        first, more = copies[0], len(copies) - 1
        others = f" {more} more {'is' if more == 1 else 'are'} under way." if more else ""
        started = f", started{first.line}," if first.line else ""
        return Fault(
            f"{self.whose} ends before the copy from {first.source} to {first.target}{started} has been waited for."
            f"{others}",
            "wait for every copy before the kernel ends: only a wait says that it has arrived.",
        )


def _only(target: Part, kept: np.ndarray) -> Part:
    """Return the rows of a gather's target whose index counts."""
    first = next(n for n, index in enumerate(target.at) if not isinstance(index, int))
    rows = target.at[first]
    chosen = np.arange(rows.start, rows.stop, rows.step)[kept]
    return target._replace(at=(*target.at[:first], chosen, *target.at[first + 1 :]), kept=None)
