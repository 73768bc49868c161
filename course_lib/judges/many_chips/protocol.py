"""What can go wrong between devices: waits without an end, accesses that nothing orders, semaphores left above zero.

A buffer lives from the moment its device enters the kernel to the moment it leaves. Both count as a write of all of it,
so that a copy into a device that may not have entered, and a copy that nobody waits for, are races like any other.
"""

import collections
import itertools
from typing import NamedTuple

from course_lib.judges.many_chips.order import Order, order_of
from course_lib.judges.many_chips.record import Buffer, Event, Record
from course_lib.judges.verdict import Complaint

_SHOWN = 3  # further waits without an end
_RANK = {"enter": 0, "leave": 2}  # which race is told first, by the kind of its second access; others are 1


class _Access(NamedTuple):
    node: int
    part: tuple
    writes: bool
    event: Event
    kind: str  # "copy reads", "copy writes", "read", "write", "enter" or "leave"


def complaint(record: Record) -> Complaint | None:
    """Report the most telling fault of a recorded program; None if every run of it does the same."""
    order = order_of(record)
    if waiting := record.waiting():
        return _endless(record, order, waiting)
    races = _races(record, order)
    if races:
        return _race(record, min(races, key=lambda pair: _RANK.get(pair[2].kind, 1)), len(races))
    return _left_over(record, order)


def _endless(record: Record, order: Order, waiting: list[Event]) -> Complaint:
    first, *others = waiting
    given = sum(amount for _, amount in order.signals[first.semaphore])
    asked = sum(wait.amount for wait in order.waits[first.semaphore])
    what = (
        f"Device {first.device} waits for {record.semaphore_named(first.semaphore)}{_at(first)}, and the wait never "
        f"ends: {_amount(order, first.semaphore, given)} arrive there, but up to here {asked:,} are waited for."
    )
    for event in others[:_SHOWN]:
        what += f" Device {event.device} waits for {record.semaphore_named(event.semaphore)}{_at(event)}."
    more = len(others) - _SHOWN
    return Complaint(
        what + (f" {more} more devices also wait." if more > 0 else ""),
        "wait once for each copy and each signal, and for no more than is sent to this device. Check that every "
        "device sends to the one that waits for it.",
    )


def _races(record: Record, order: Order) -> list[tuple[Buffer, _Access, _Access]]:
    """Return pairs of accesses to one buffer that nothing orders, at least one of them a write, one pair for each pair
    of lines. The second access may be a device's entry or exit.
    """
    accesses: dict[Buffer, list[_Access]] = collections.defaultdict(list)
    for events in record.events:
        for e in events:
            if e.kind == "start":
                accesses[e.buffer].append(_Access(order.node(e, "copy reads"), e.part, False, e, "copy reads"))
                accesses[e.target].append(_Access(order.node(e, "copy writes"), e.target_part, True, e, "copy writes"))
            elif e.kind in ("read", "write"):
                accesses[e.buffer].append(_Access(order.node(e), e.part, e.kind == "write", e, e.kind))
    found, told = [], set()
    for buffer, of_buffer in accesses.items():
        ends = [record.events[buffer.device][place] for place in (0, -1)]
        lives = [_Access(order.node(e), (), True, e, e.kind) for e in ends if e.kind in ("enter", "leave")]
        for one, other in itertools.combinations([*of_buffer, *lives], 2):
            if one.event is other.event or not (one.writes or other.writes) or not _overlap(one.part, other.part):
                continue
            if order.before(one.node, other.node) or order.before(other.node, one.node):
                continue
            kind = (one.kind, other.kind, one.event.line, other.event.line)
            if kind not in told:
                told.add(kind)
                found.append((buffer, one, other))
    return found


def _overlap(one: tuple, other: tuple) -> bool:
    """Whether two parts of a buffer share an element; an axis that is not named is whole."""
    pairs = [[p if isinstance(p, slice) else slice(p, p + 1) for p in pair] for pair in zip(one, other, strict=False)]
    return all(a.start < b.stop and b.start < a.stop for a, b in pairs)


def _race(record: Record, race: tuple[Buffer, _Access, _Access], kinds: int) -> Complaint:
    buffer, one, other = race
    others = f" {kinds - 1} more such {'pair' if kinds == 2 else 'pairs'} of lines." if kinds > 1 else ""
    what = f"{_capital(_said(record, one, buffer))}, and"
    if other.kind == "enter":
        return Complaint(
            f"{what} nothing ensures that device {buffer.device} has entered the kernel by then: its buffers may not "
            f"exist.{others}",
            "before the first copy, wait on pltpu.get_barrier_semaphore() for a signal from every device that copies "
            "into this one or that this one copies into. Without collective_id and without a barrier, the compiler "
            "inserts one.",
        )
    if other.kind == "leave":
        return Complaint(
            f"{what} nothing waits for it: device {buffer.device} may have left the kernel by then.{others}",
            "wait for every copy at both ends: .wait_send() where it starts, .wait_recv() where it arrives; .wait() "
            "does both.",
        )
    copies = one.kind.startswith("copy") and other.kind.startswith("copy")
    same = copies and one.event.semaphore == other.event.semaphore
    shares = f" Both copies arrive on {record.semaphore_named(one.event.semaphore)}." if same else ""
    return Complaint(
        f"{what} {_said(record, other, buffer)}: nothing orders the two.{shares}{others}",
        _how_to_order(record, one, other),
    )


def _how_to_order(record: Record, one: _Access, other: _Access) -> str:
    arriving = [access.event.semaphore for access in (one, other) if access.kind == "copy writes"]
    on_it = [e for events in record.events for e in events if e.kind == "start" and e.semaphore in arriving[:1]]
    if len(on_it) > 1:
        return (
            f"{len(on_it)} copies arrive on {record.semaphore_named(arriving[0])}, which counts bytes but not whose "
            "they are: give each copy that may be under way at the same time its own semaphore, or tell its sender "
            "when the buffer is free."
        )
    return (
        "wait for the copy before you reuse the buffer. If it comes from another device, first tell that device that "
        "the buffer is free: pl.semaphore_signal(sem, device_id=...)."
    )


def _said(record: Record, access: _Access, buffer: Buffer) -> str:
    """Return "the copy that device 1 starts at line 9 of kernel reads o_ref of device 0" or "device 0 reads ..."."""
    device, at, what = access.event.device, _at(access.event), record.named(buffer, access.part)
    if access.kind.startswith("copy"):
        return f"the copy that device {device} starts{at} {access.kind.removeprefix('copy ')} {what}"
    if access.kind == "read" and not at:
        return f"what device {device} returns is {what}"
    return f"device {device} {access.kind}s {what}{at}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _at(event: Event) -> str:
    return f" at {event.line}" if event.line else ""


def _left_over(record: Record, order: Order) -> Complaint | None:
    for semaphore in [*order.signals, *(s for s in order.waits if s not in order.signals)]:
        given = sum(amount for _, amount in order.signals[semaphore])
        asked = sum(wait.amount for wait in order.waits[semaphore])
        if given > asked:
            return Complaint(
                f"{record.semaphore_named(semaphore)} is left at {given - asked:,} when the kernel ends: "
                f"{_amount(order, semaphore, given)} arrive, but {asked:,} are waited for. A chip halts there if the "
                "semaphore is scratch of the kernel; any other one keeps its value for the next kernel.",
                "wait for everything that arrives: every copy at both ends, and every signal.",
            )
    return None


def _amount(order: Order, semaphore, number: int) -> str:
    """Return "8,192 bytes" where copies signal the semaphore, and "2 signals" where devices do."""
    of_copies = any(order.nodes[node][1].startswith("copy") for node, _ in order.signals[semaphore])
    if of_copies:
        return f"{number:,} bytes"
    return f"{number:,} {'signal' if number == 1 else 'signals'}"
