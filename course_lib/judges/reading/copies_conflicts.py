"""Accesses to memory while a copy into or out of it is in flight."""

from course_lib import grid
from course_lib.judges.reading.copies_in_flight import (
    Pending,
    at_step,
    its_source,
    key_of,
    named,
    same_place,
    semaphore_named,
)
from course_lib.judges.verdict import Complaint

_DOES = {"read": "reads", "write": "writes to", "start": "starts a copy into"}


def started_twice(call, use: grid.Use, step: int, entry: int, pending: list[Pending]) -> Complaint | None:
    """Report a copy into memory that another copy in flight goes to."""
    others = [p for p in pending if same_place(use, entry, p)]
    if not others:
        return None
    if use.part is None and not any(_same_source(use, entry, p) for p in others):
        return None  # each brings something else to rows that are known only when the kernel runs
    name = named(use.ref, use.part, entry)
    its = others[0].use.part
    if use.part is not None and its is not None and use.part[entry].tolist() != its[others[0].entry].tolist():
        return Complaint(
            f"{at_step(call, step)} {call.name} starts a copy into {name} while another copy, into "
            f"{named(use.ref, its, others[0].entry)}, is under way: they share rows.",
            "give each copy rows of its own: block n of size rows begins at row n * size.",
        )
    return Complaint(
        f"{at_step(call, step)} {call.name} starts a copy into {name} while another copy into it is under way.",
        "wait for the first copy before you start the second, or remove a .start() that is one too many.",
    )


def _same_source(use: grid.Use, entry: int, copy: Pending) -> bool:
    """Whether two copies may come from the same memory."""
    mine, its = use.source_part, copy.use.source_part
    if use.source_number != copy.use.source_number or (mine is None) != (its is None):
        return False
    return mine is None or mine[entry].tolist() == its[copy.entry].tolist()


def touched(
    call, use: grid.Use, step: int, entry: int, pending: list[Pending], unread: list[Pending]
) -> Complaint | None:
    name = named(use.ref, use.part, entry)
    for copy in pending:
        into = same_place(use, entry, copy)
        out_of = its_source(use, entry, copy)
        if into and use.kind == "read" and any(same_place(use, entry, c) for c in unread):
            return Complaint(
                f"{at_step(call, step)} {call.name} reads {name} after it has started the next copy of "
                f"{copy.use.source} into it, which overwrites data still in use.",
                "copy into the other half of the buffer while this one is in use, or start the copy after the read.",
            )
        if into and use.kind == "read":
            return Complaint(
                f"{at_step(call, step)} {call.name} reads {name} before it has waited for the copy of "
                f"{copy.use.source} into it.",
                f"call .wait() on the copy before you read {use.ref}, or read the part whose copy has arrived.",
            )
        if use.kind == "write" and (into or out_of):
            way = f"of {copy.use.source} into it" if into else f"of it into {copy.use.ref}"
            what = f"{at_step(call, step)} {call.name} writes to {name} while a copy {way} is under way."
            if copy.step != step:
                return Complaint(
                    f"{what} It was started at step {call.step(copy.step)}.",
                    f"call .wait() as often as .start(): wait for this copy before {use.ref} is reused.",
                )
            return Complaint(
                what,
                f"wait for the copy before you reuse {use.ref}, or use another buffer in the meantime.",
            )
    return None


def taken_for_another(
    call, use: grid.Use, step: int, entry: int, pending: list[Pending], unsure: list[Pending]
) -> Complaint | None:
    """Report a use of the memory of a copy whose wait may have counted another one.

    That is a read of its target, or a write to its source; the next copy into the source writes to it, too.
    """
    for copy in unsure:
        touched = (same_place if use.kind == "read" else its_source)(use, entry, copy)
        if touched and any(key_of(p) == key_of(copy) for p in pending):
            name, does = semaphore_named(copy.use.semaphore_name, key_of(copy)), _DOES[use.kind]
            return Complaint(
                f"{at_step(call, step)} {call.name} {does} {named(use.ref, use.part, entry)} after one wait on "
                f"{name}, but another copy on it is under way too: the wait ends when either of them has arrived.",
                "give each copy that may be under way its own semaphore: SemaphoreType.DMA((n,)), and sem.at[i].",
            )
    return None
