"""A ledger of the copies that a kernel starts by hand: each needs one wait, on its own semaphore.

A wait without a copy would hang the chip, and the simulator too, so it is found here, before anything runs.
"""

import functools

from course_lib import grid
from course_lib.judges.reading import looked_up, memory
from course_lib.judges.reading.copies_conflicts import started_twice, taken_for_another, touched
from course_lib.judges.reading.copies_in_flight import Pending, at_step, key_of, named, same_place, semaphore_named
from course_lib.judges.verdict import Complaint


def complaint(walk: grid.Walk) -> Complaint | None:
    """Report the first wait without a copy, or copy without a wait; None if all is well or unknown."""
    for call in walk.calls:
        if _readable(call) and (found := _ledger(call)[0]):
            return found
    return None


def early_use(walk: grid.Walk) -> Complaint | None:
    """Report the first access to a buffer while a copy into or out of it is in flight; None if none is seen.

    Positions are followed only as far as indices are known, so this explains a failure and proves none.
    """
    for call in walk.calls:
        if _readable(call) and (found := _ledger(call)[1]):
            return found
    return None


def unordered(walk: grid.Walk) -> Complaint | None:
    """Explain a race in which no axis is shared by two cores: it must be one with a copy."""
    shared = any(any(call.parallel) for call in walk.calls)
    if shared or not any(map(grid.has_copies_by_hand, walk.calls)):
        return None
    return Complaint(
        "A copy and the kernel, or two copies, touch the same memory with nothing to order them.",
        "wait for a copy before you read its target, and before you overwrite its source.",
    )


def _readable(call: grid.Call) -> bool:
    if not _starts_or_waits(call) or (uses := memory.known_uses(call)) is None or grid.body(call).hidden_copies:
        return False
    copies = [use for use in uses if use.kind in ("start", "wait")]
    return bool(copies) and all(use.semaphore is not None and use.sure and not use.remote for use in copies)


@functools.lru_cache(maxsize=256)
def _starts_or_waits(call: grid.Call) -> bool:
    """Whether the kernel starts a copy of its own, or waits for one."""
    return any(eqn.primitive.name in ("dma_start", "dma_wait") for eqn in grid.equations(call.kernel))


def _ledger(call: grid.Call) -> tuple[Complaint | None, Complaint | None]:
    """Return (the first wait or copy without its partner, the first access to memory while a copy is in flight)."""
    pending: list[Pending] = []
    answered: set[tuple] = set()  # copies with a wait: (semaphore, target, source)
    unread: list[Pending] = []  # copies that have arrived, with a target not read since
    unsure: list[Pending] = []  # copies whose wait may have counted another one in flight on its semaphore
    early = None
    for step, use, entry in _in_order(call):
        if use.kind in ("read", "write"):
            early = early or touched(call, use, step, entry, pending, unread)
            early = early or taken_for_another(call, use, step, entry, pending, unsure)
            unread = [c for c in unread if not same_place(use, entry, c)]
            continue
        key = tuple(use.semaphore[entry].tolist())
        if outside := _no_such_semaphore(call, use, step, key):
            return outside, early
        if use.kind == "start":
            if beyond := _beyond(call, use, step, entry):
                return beyond, early
            early = early or started_twice(call, use, step, entry, pending)
            early = early or taken_for_another(call, use, step, entry, pending, unsure)
            pending.append(Pending(use, step, entry, use.bytes))
            continue
        left = use.bytes
        for copy in [p for p in pending if key_of(p) == key]:
            taken = min(left, copy.bytes)
            left, copy.bytes = left - taken, copy.bytes - taken
        if left:
            return _hangs(call, use, step, entry, key, pending, answered), early
        arrived, pending = [p for p in pending if not p.bytes], [p for p in pending if p.bytes]
        unread += arrived
        unsure = arrived + [p for p in unsure if key_of(p) != key] if any(key_of(p) == key for p in pending) else []
        answered.add(_waited_for(use, entry, key))
    return (early or _never_waited(call, pending[0]) if pending else None), early


def _in_order(call: grid.Call) -> list[tuple[int, grid.Use, int]]:
    """Return (step, use, entry) in the order of execution."""
    found = [
        (step, place, entry, use)
        for place, use in enumerate(memory.known_uses(call))
        for entry, step in enumerate(use.steps.tolist())
    ]
    return [(step, use, entry) for step, _, entry, use in sorted(found, key=lambda f: f[:3])]


def _beyond(call: grid.Call, use: grid.Use, step: int, entry: int) -> Complaint | None:
    """Report a copy from or into rows that a ref does not have."""
    for name, part, length in ((use.source, use.source_part, use.source_length), (use.ref, use.part, use.length)):
        if part is not None and (part[entry, 0] < 0 or part[entry].sum() > length):
            what = (
                f"{at_step(call, step)} {call.name} starts a copy of {use.source} into {use.ref} that is out of "
                f"bounds: {named(name, part, entry)}, but {name} has {length} along axis 0."
            )
            if where := looked_up.entry(call, int(part[entry, 0]), part[:, 0], step):
                return Complaint(
                    f"{what} The {int(part[entry, 0])} comes from {where}.",
                    f"{where} holds no valid number. Start no copy for an entry past the last one that counts: is the "
                    "count too large, or that of another list?",
                )
            if any(operand.name == name and operand.pipelined for operand in call.operands):
                return Complaint(
                    what,
                    f"{name} is the block of one step, so its rows are counted from 0 in each step. Check where the "
                    "copy begins, and whether the last copy is one too many.",
                )
            return Complaint(what, "check the last iteration: it must not start a copy if there is no next block.")
    return None


def _no_such_semaphore(call: grid.Call, use: grid.Use, step: int, key: tuple) -> Complaint | None:
    """Report a copy on sem[2] of two semaphores."""
    if all(index < length for index, length in zip(key[1:], use.semaphores, strict=False)):
        return None
    name, does = semaphore_named(use.semaphore_name, key), "starts a copy" if use.kind == "start" else "waits"
    return Complaint(
        f"{at_step(call, step)} {call.name} {does} on {name}, but {use.semaphore_name} has "
        f"{', '.join(map(str, use.semaphores))}, counted from 0.",
        "cycle through the semaphores: copy i uses semaphore i mod n, just as it uses buffer i mod n.",
    )


def _hangs(
    call, use: grid.Use, step: int, entry: int, key: tuple, pending: list[Pending], answered: set[tuple]
) -> Complaint:
    semaphore, who = semaphore_named(use.semaphore_name, key), f"{at_step(call, step)} {call.name}"
    other = next((p for p in pending if same_place(use, entry, p)), None)
    if _waited_for(use, entry, key) in answered and other is None:
        return Complaint(
            f"{who} waits twice on {semaphore} for one copy into {use.ref}: the second wait would never end.",
            "call .wait() once for each .start(); count them, in the prologue and in the last iteration too.",
        )
    if min(key[1:], default=0) < 0:
        return Complaint(
            f"{who} waits on {semaphore} for a copy into {use.ref}, but semaphores are counted from 0: no copy was "
            "started before the first one. The wait would never end.",
            "call .start() once before each .wait(). If there is only one step, no earlier step has started a copy.",
        )
    if other is not None:
        name = semaphore_named(other.use.semaphore_name, key_of(other))
        return Complaint(
            f"{who} waits on {semaphore} for a copy into {use.ref}, but no copy under way signals it: the one into "
            f"{named(use.ref, other.use.part, other.entry)} signals {name}. The wait would never end.",
            "start a copy and wait for it with the same semaphore: write one function of the block's number that "
            "returns the copy, and call .start() and .wait() on its result.",
        )
    return Complaint(
        f"{who} waits on {semaphore} for a copy into {use.ref}, but nothing has started one: the wait would never end.",
        "call .start() once before each .wait(); check the first and the last iteration of the loop.",
    )


def _waited_for(use: grid.Use, entry: int, key: tuple) -> tuple:
    """Return what identifies a wait's copy, as far as known: (semaphore, part of the target, part of the source)."""
    parts = (use.part, use.source_part)
    return (key, *(None if part is None else tuple(part[entry].tolist()) for part in parts))


def _never_waited(call, copy: Pending) -> Complaint:
    name = semaphore_named(copy.use.semaphore_name, key_of(copy))
    where = "" if call.steps == 1 else f", started at step {call.step(copy.step)},"
    return Complaint(
        f"The copy of {copy.use.source} into {copy.use.ref}{where} is never waited for: {name} is left signalled, and "
        "nothing tells when the data has arrived.",
        "wait for every copy before you read its target, and for all copies before the kernel ends.",
    )
