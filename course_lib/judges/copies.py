"""A ledger of the copies that a kernel makes by hand: each must be waited for, once, on its own semaphore.

A wait that nothing answers would hang the chip, and the simulator with it; so it is found here, before anything runs.
"""

import dataclasses
import functools

from course_lib import grid
from course_lib.judges import memory
from course_lib.judges.verdict import Complaint


@dataclasses.dataclass
class _Pending:
    """A copy that has been started and not been waited for."""

    use: grid.Use
    step: int
    entry: int  # of its grid step, in the arrays of ``use``
    bytes: int  # that no wait has taken yet


def complaint(walk: grid.Walk) -> Complaint | None:
    """The first wait without a copy, or the first copy without a wait; None where all is well or cannot be told."""
    for call in walk.calls:
        if _readable(call) and (found := _ledger(call)[0]):
            return found
    return None


def early_use(walk: grid.Walk) -> Complaint | None:
    """The first touch of a buffer while a copy into or out of it is on its way; None where none is seen.

    What lies where is followed as far as indices are known, so this explains a failure and proves none.
    """
    for call in walk.calls:
        if _readable(call) and (found := _ledger(call)[1]):
            return found
    return None


def unordered(walk: grid.Walk) -> Complaint | None:
    """What a race is where no axis is shared by two cores: one with a copy."""
    shared = any("parallel" in str(meaning) for call in walk.calls for meaning in call.semantics)
    if shared or not any(map(grid.has_copies_by_hand, walk.calls)):
        return None
    return Complaint(
        "A copy and the kernel, or two copies, touch the same memory with nothing to order them.",
        "wait for a copy before its target is read, and before its source is written again.",
    )


def _readable(call: grid.Call) -> bool:
    if not _starts_or_waits(call) or (uses := memory.known_uses(call)) is None or grid.body(call).hidden_copies:
        return False
    copies = [use for use in uses if use.kind in ("start", "wait")]
    return bool(copies) and all(use.semaphore is not None and use.sure and not use.remote for use in copies)


@functools.lru_cache(maxsize=256)
def _starts_or_waits(call: grid.Call) -> bool:
    """Whether the kernel has a copy of its own, or a wait for one that nothing starts."""
    return any(eqn.primitive.name in ("dma_start", "dma_wait") for eqn in grid.equations(call.kernel))


def _ledger(call: grid.Call) -> tuple[Complaint | None, Complaint | None]:
    """(the first wait or copy that has no partner, the first use of memory while a copy is on its way)."""
    pending: list[_Pending] = []
    answered: set[tuple] = set()  # copies that have been waited for: (semaphore, target, source)
    unread: list[_Pending] = []  # copies that have arrived, and whose target has not been read since
    unsure: list[_Pending] = []  # copies that a wait has counted while others were under way on its semaphore
    early = None
    for step, use, entry in _in_order(call):
        if use.kind in ("read", "write"):
            early = early or _touched(call, use, step, entry, pending, unread)
            early = early or _taken_for_another(call, use, step, entry, pending, unsure)
            unread = [c for c in unread if not _same_place(use, entry, c)]
            continue
        key = tuple(use.semaphore[entry].tolist())
        if use.kind == "start":
            if beyond := _beyond(call, use, step, entry):
                return beyond, early
            early = early or _started_twice(call, use, step, entry, pending)
            pending.append(_Pending(use, step, entry, use.bytes))
            continue
        left = use.bytes
        for copy in [p for p in pending if _key(p) == key]:
            taken = min(left, copy.bytes)
            left, copy.bytes = left - taken, copy.bytes - taken
        if left:
            return _hangs(call, use, step, entry, key, pending, answered), early
        arrived, pending = [p for p in pending if not p.bytes], [p for p in pending if p.bytes]
        unread += arrived
        unsure = arrived + [p for p in unsure if _key(p) != key] if any(_key(p) == key for p in pending) else []
        answered.add(_waited_for(use, entry, key))
    return (early or _never_waited(call, pending[0]) if pending else None), early


def _in_order(call: grid.Call) -> list[tuple[int, grid.Use, int]]:
    """(step, use, entry) in the order of time."""
    found = [
        (step, place, entry, use)
        for place, use in enumerate(memory.known_uses(call))
        for entry, step in enumerate(use.steps.tolist())
    ]
    return [(step, use, entry) for step, _, entry, use in sorted(found, key=lambda f: f[:3])]


def _beyond(call: grid.Call, use: grid.Use, step: int, entry: int) -> Complaint | None:
    """A copy from or into rows that a ref does not have."""
    for name, part, length in ((use.source, use.source_part, use.source_length), (use.ref, use.part, use.length)):
        if part is not None and (part[entry, 0] < 0 or part[entry].sum() > length):
            return Complaint(
                f"{_at(call, step)} {call.name} starts a copy of {use.source} into {use.ref} that reaches outside: "
                f"{_named(name, part, entry)}, and {name} has {length} along axis 0.",
                "look at the last turn: is the next copy started though there is no next one?",
            )
    return None


def _hangs(
    call, use: grid.Use, step: int, entry: int, key: tuple, pending: list[_Pending], answered: set[tuple]
) -> Complaint:
    semaphore, who = _semaphore(use.semaphore_name, key), f"{_at(call, step)} {call.name}"
    other = next((p for p in pending if _same_place(use, entry, p)), None)
    if _waited_for(use, entry, key) in answered and other is None:
        return Complaint(
            f"{who} waits twice on {semaphore} for one copy into {use.ref}: the second wait would never end.",
            "one .wait() for each .start(); count them, in the prologue and in the last turn too.",
        )
    if min(key[1:], default=0) < 0:
        return Complaint(
            f"{who} waits on {semaphore} for a copy into {use.ref}, and semaphores count from 0: the copy before the "
            "first one was never started. The wait would never end.",
            "one .start() before each .wait(): where there is one step only, is there a step before it?",
        )
    if other is not None:
        name = _semaphore(other.use.semaphore_name, _key(other))
        return Complaint(
            f"{who} waits on {semaphore} for a copy into {use.ref}, and no copy under way signals that: the one into "
            f"{_named(use.ref, other.use.part, other.entry)} signals {name}. The wait would never end.",
            "start a copy and wait for it with the same semaphore: make it in one place, as a function of its number, "
            "and call .start() and .wait() on what that returns.",
        )
    return Complaint(
        f"{who} waits on {semaphore} for a copy into {use.ref}, and nothing has started one: the wait would never end.",
        "one .start() before each .wait(); look at the first and the last turn of the loop.",
    )


def _waited_for(use: grid.Use, entry: int, key: tuple) -> tuple:
    """Which copy a wait is for, as far as it says: (semaphore, part of the target, part of the source)."""
    parts = (use.part, use.source_part)
    return (key, *(None if part is None else tuple(part[entry].tolist()) for part in parts))


def _never_waited(call, copy: _Pending) -> Complaint:
    name = _semaphore(copy.use.semaphore_name, _key(copy))
    where = "" if call.steps == 1 else f", started at step {call.step(copy.step)},"
    return Complaint(
        f"The copy of {copy.use.source} into {copy.use.ref}{where} is never waited for: {name} is left signalled, and "
        "nothing says when the numbers are there.",
        "wait for every copy before its target is read, and for all of them before the kernel ends.",
    )


def _started_twice(call, use: grid.Use, step: int, entry: int, pending: list[_Pending]) -> Complaint | None:
    """A copy into memory that another one is on its way to."""
    if not any(_same_place(use, entry, p) for p in pending):
        return None
    name = _named(use.ref, use.part, entry)
    return Complaint(
        f"{_at(call, step)} {call.name} starts a copy into {name} while another copy into it is under way.",
        "wait for the first before the second is started; is one .start() too many?",
    )


def _same_place(use: grid.Use, entry: int, copy: _Pending) -> bool:
    """Whether a use touches the target of a copy."""
    mine, its = (use.part, use.inner), (copy.use.part, copy.use.inner)
    return use.number == copy.use.number and _overlap(mine, entry, its, copy.entry)


def _its_source(use: grid.Use, entry: int, copy: _Pending) -> bool:
    """Whether a use touches the source of a copy."""
    its_source = copy.use.source_part, copy.use.source_inner
    return use.number == copy.use.source_number and _overlap((use.part, use.inner), entry, its_source, copy.entry)


def _touched(
    call, use: grid.Use, step: int, entry: int, pending: list[_Pending], unread: list[_Pending]
) -> Complaint | None:
    name = _named(use.ref, use.part, entry)
    for copy in pending:
        into = _same_place(use, entry, copy)
        out_of = _its_source(use, entry, copy)
        if into and use.kind == "read" and any(_same_place(use, entry, c) for c in unread):
            return Complaint(
                f"{_at(call, step)} {call.name} reads {name} after the next copy of {copy.use.source} into it has been "
                "started: what had arrived there was still in use.",
                "copy into the other half of the buffer while this one is in use, or start the copy after the read.",
            )
        if into and use.kind == "read":
            return Complaint(
                f"{_at(call, step)} {call.name} reads {name} before the copy of {copy.use.source} into it has been "
                "waited for.",
                f"call .wait() on the copy before {use.ref} is read.",
            )
        if use.kind == "write" and (into or out_of):
            way = f"of {copy.use.source} into it" if into else f"of it into {copy.use.ref}"
            return Complaint(
                f"{_at(call, step)} {call.name} writes to {name} while a copy {way} is under way.",
                f"wait for the copy before {use.ref} is used again, or use another buffer in the meantime.",
            )
    return None


def _taken_for_another(
    call, use: grid.Use, step: int, entry: int, pending: list[_Pending], unsure: list[_Pending]
) -> Complaint | None:
    """A read of the target, or a write to the source, of a copy whose wait may have counted another one."""
    for copy in unsure:
        touched = (_same_place if use.kind == "read" else _its_source)(use, entry, copy)
        if touched and any(_key(p) == _key(copy) for p in pending):
            name, does = _semaphore(copy.use.semaphore_name, _key(copy)), "reads" if use.kind == "read" else "writes to"
            return Complaint(
                f"{_at(call, step)} {call.name} {does} {_named(use.ref, use.part, entry)} after one wait on {name}, on "
                "which another copy is under way too: the wait ends when either of them has arrived.",
                "a semaphore of its own for each copy that may be under way: SemaphoreType.DMA((n,)), and sem.at[i].",
            )
    return None


def _key(copy: _Pending) -> tuple:
    """The semaphore of a copy."""
    return tuple(copy.use.semaphore[copy.entry].tolist())


def _named(ref: str, part, entry: int) -> str:
    """buf_ref[1], or buf_ref where its part is not known."""
    if part is None:
        return ref
    start, size = part[entry].tolist()
    return f"{ref}[{start}]" if size == 1 else f"{ref}[{start}:{start + size}]"


def _overlap(mine: tuple, entry: int, its: tuple, its_entry: int) -> bool:
    """Whether two parts of a ref, (first axis, other axes) each, share an element, as far as is known."""
    (part, inner), (other, other_inner) = mine, its
    if part is None or other is None:
        return part is None and other is None
    if not _share(*part[entry].tolist(), *other[its_entry].tolist()):
        return False
    if inner is None or other_inner is None:
        return True
    axes = zip(inner[entry].tolist(), other_inner[its_entry].tolist(), strict=True)
    return all(_share(*one, *another) for one, another in axes)


def _share(start: int, size: int, begin: int, length: int) -> bool:
    """Whether two parts of an axis meet for sure. One that is not known, of size -n, meets all n elements only."""
    if size < 0 or length < 0:
        return size + length == 0
    return start < begin + length and begin < start + size


def _at(call: grid.Call, step: int) -> str:
    return f"At step {call.step(step)}" if call.steps > 1 else "In its only step"


def _semaphore(name: str, key: tuple) -> str:
    return f"{name}[{', '.join(map(str, key[1:]))}]" if len(key) > 1 else name
