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
_RANK = {"enter": 0, "leave": 3}  # which race is told first, by the kind of its second access
_EARLY, _OTHER = 1, 2  # the ranks of a read before anything has arrived, and of other races


class _Access(NamedTuple):
    node: int
    part: tuple
    writes: bool
    event: Event
    kind: str  # "copy reads", "copy writes", "read", "write", "enter" or "leave"


class _Race(NamedTuple):
    """Two accesses to a buffer that nothing orders; the second may be the entry or the exit of its device."""

    buffer: Buffer
    one: _Access
    other: _Access
    early: _Access | None  # the one of the two that is a copy, if the other reads before its device waits for it

    @property
    def rank(self) -> int:
        return _RANK.get(self.other.kind, _EARLY if self.early else _OTHER)


def complaint(record: Record) -> Complaint | None:
    """Report the most telling fault of a recorded program; None if every run of it does the same."""
    if stray := _stray(record):
        return stray
    order = order_of(record)
    if waiting := record.waiting():
        return _endless(record, order, waiting)
    if races := _races(record, order):
        return _said_of(record, min(races, key=lambda race: race.rank), len(races))
    return _left_over(record, order)


def _stray(record: Record) -> Complaint | None:
    """Report a copy or a signal to a device that is not there."""
    devices = len(record.events)
    for event in itertools.chain.from_iterable(record.events):
        if event.kind in ("start", "signal") and event.semaphore.device not in range(devices):
            does = "copies to" if event.kind == "start" else "signals"
            return Complaint(
                f"Device {event.device} {does} device {event.semaphore.device}{_at(event)}, but the devices are 0 to "
                f"{devices - 1}.",
                "compute device_id with a remainder, so that the ring closes: lax.rem(me + 1, n) to the right, "
                "lax.rem(me + n - 1, n) to the left.",
            )
    return None


def _endless(record: Record, order: Order, waiting: list[Event]) -> Complaint:
    first = next((wait for wait in waiting if _missing(order, wait) > 0), waiting[0])
    others = [wait for wait in waiting if wait is not first]
    asked = sum(wait.amount for wait in order.waits[first.semaphore])
    given = asked - _missing(order, first)
    arrive = f"{_arriving(order, first.semaphore, given)} there" if given else "nothing arrives there"
    what = (
        f"Device {first.device} waits for {record.semaphore_named(first.semaphore)}{_at(first)}, and the wait never "
        f"ends: {arrive}, but up to here {asked:,} {'is' if asked == 1 else 'are'} waited for."
    )
    for event in others[:_SHOWN]:
        what += f" Device {event.device} waits for {record.semaphore_named(event.semaphore)}{_at(event)}."
    more = len(others) - _SHOWN
    what += f" {more} more devices also wait." if more > 0 else ""
    if not given and {wait.semaphore.number for wait in waiting} == {first.semaphore.number}:
        return Complaint(
            what,
            "start every copy, and send every signal, before you wait for what the others send: as long as all devices "
            "wait, nothing can arrive.",
        )
    return Complaint(
        what,
        "wait once for each copy and each signal, and for no more than is sent to this device. Check that every "
        "device sends to the one that waits for it.",
    )


def _missing(order: Order, wait: Event) -> int:
    """Return how much more the waits on a semaphore take than arrives there."""
    given = sum(amount for _, amount in order.signals[wait.semaphore])
    return sum(each.amount for each in order.waits[wait.semaphore]) - given


def _accesses(record: Record, order: Order) -> dict[Buffer, list[_Access]]:
    """Return the accesses to each buffer, without its device's entry and exit."""
    accesses: dict[Buffer, list[_Access]] = collections.defaultdict(list)
    for events in record.events:
        for e in events:
            if e.kind == "start":
                accesses[e.buffer].append(_Access(order.node(e, "copy reads"), e.part, False, e, "copy reads"))
                accesses[e.target].append(_Access(order.node(e, "copy writes"), e.target_part, True, e, "copy writes"))
            elif e.kind in ("read", "write"):
                accesses[e.buffer].append(_Access(order.node(e), e.part, e.kind == "write", e, e.kind))
    return accesses


def _races(record: Record, order: Order) -> list[_Race]:
    """Return pairs of accesses to one buffer that nothing orders, at least one of them a write, one pair for each pair
    of lines.
    """
    found, told = [], set()
    for buffer, of_buffer in _accesses(record, order).items():
        ends = [record.events[buffer.device][place] for place in (0, -1)]
        lives = [_Access(order.node(e), (), True, e, e.kind) for e in ends if e.kind in ("enter", "leave")]
        for one, other in itertools.combinations([*of_buffer, *lives], 2):
            if one.event is other.event or not (one.writes or other.writes) or not _overlap(one.part, other.part):
                continue
            if order.before(one.node, other.node) or order.before(other.node, one.node):
                continue
            race = _Race(buffer, one, other, _early(record, order, of_buffer, one, other))
            kind = (one.kind, other.kind, one.event.line, other.event.line, race.rank)
            if kind not in told:
                told.add(kind)
                found.append(race)
    return found


def _overlap(one: tuple, other: tuple) -> bool:
    """Whether two parts of a buffer share an element; an axis that is not named is whole."""
    pairs = [[p if isinstance(p, slice) else slice(p, p + 1) for p in pair] for pair in zip(one, other, strict=False)]
    return all(a.start < b.stop and b.start < a.stop for a, b in pairs)


def _early(record: Record, order: Order, of_buffer: list[_Access], one: _Access, other: _Access) -> _Access | None:
    """Return the copy of the two, if the other access reads what it brings before its device waits on its semaphore.

    None if something else has been written there in every run: then the buffer is reused.
    """
    copy, read = (one, other) if one.kind == "copy writes" else (other, one)
    if copy.kind != "copy writes" or read.kind not in ("read", "copy reads"):
        return None
    before = itertools.takewhile(lambda event: event is not read.event, record.events[read.event.device])
    if any(event.kind == "wait" and event.semaphore == copy.event.semaphore for event in before):
        return None
    filled = (w for w in of_buffer if w.writes and _overlap(w.part, copy.part) and order.before(w.node, read.node))
    return None if any(filled) else copy


def _said_of(record: Record, race: _Race, kinds: int) -> Complaint:
    """Report one race of ``kinds``."""
    buffer, one, other, early = race
    others = (
        f" {kinds - 1} more {'pair' if kinds == 2 else 'pairs'} of accesses {'is' if kinds == 2 else 'are'} unordered."
        if kinds > 1
        else ""
    )
    what = f"{_capital(_said(record, one, buffer))}, and"
    if other.kind == "enter":
        return Complaint(
            f"{what} nothing ensures that device {buffer.device} has entered the kernel by then: its buffers may not "
            f"exist.{_signals_before(record, one.event, buffer.device)}{others}",
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
    if early:
        semaphore = record.semaphore_named(early.event.semaphore)
        return Complaint(
            f"{what} {_said(record, other, buffer)}: nothing orders the two. Device {buffer.device} has not waited by "
            f"then on {semaphore}, where that copy arrives.{others}",
            "wait there first. If that wait belongs to a later step, check the indices: a step may use only what has "
            "arrived before it.",
        )
    copies = one.kind.startswith("copy") and other.kind.startswith("copy")
    same = copies and one.event.semaphore == other.event.semaphore
    shares = f" Both copies arrive on {record.semaphore_named(one.event.semaphore)}." if same else ""
    return Complaint(
        f"{what} {_said(record, other, buffer)}: nothing orders the two.{shares}{others}",
        _how_to_order(record, one, other),
    )


def _signals_before(record: Record, copy: Event, target: int) -> str:
    """Return whose signals a device waits for before it starts a copy to device ``target``, as a sentence."""
    device = copy.device
    before = itertools.takewhile(lambda event: event is not copy, record.events[device])
    signals = [event for events in record.events for event in events if event.kind == "signal"]
    waits = [e for e in before if e.kind == "wait" and any(signal.semaphore == e.semaphore for signal in signals)]
    if not waits:
        return f" Before that, device {device} waits for no signal."
    waited_on = {wait.semaphore for wait in waits}
    heard = [signal for signal in signals if signal.semaphore in waited_on]
    asked, given = sum(wait.amount for wait in waits), sum(signal.amount for signal in heard)
    senders = sorted({signal.device for signal in heard})
    devices = f"device {senders[0]}" if len(senders) == 1 else f"devices {', '.join(map(str, senders))}"
    text = f" Before that, device {device} waits for {asked} {'signal' if asked == 1 else 'signals'}; "
    if target not in senders:
        return f"{text}{given} {'comes' if given == 1 else 'come'} from {devices}, none from device {target}."
    return f"{text}{given} {'comes' if given == 1 else 'come'}, from {devices}, and any {asked} will do."


def _how_to_order(record: Record, one: _Access, other: _Access) -> str:
    arriving = [access.event.semaphore for access in (one, other) if access.kind == "copy writes"]
    on_it = [e for events in record.events for e in events if e.kind == "start" and e.semaphore in arriving[:1]]
    if len(on_it) > 1:
        return (
            f"{len(on_it)} copies arrive on {record.semaphore_named(arriving[0])}, which counts bytes but not whose "
            "they are: give each copy that may be under way at the same time its own semaphore, or tell its sender "
            "when the buffer is free."
        )
    if len(arriving) == 2:
        return (
            "check where each copy writes: two that may be under way at the same time need places of their own. If you "
            "reuse the buffer on purpose, first tell the sender that it is free: pl.semaphore_signal(sem, "
            "device_id=...)."
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
        return f"device {device} returns {what}"
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
            name = record.semaphore_named(semaphore)
            name = _capital(name) if name.startswith("the ") else name  # a name of the kernel keeps its letters
            return Complaint(
                f"{name} is left at {given - asked:,} when the kernel ends: "
                f"{_arriving(order, semaphore, given)}, but {asked:,} {'is' if asked == 1 else 'are'} waited for. "
                "A chip halts there if the semaphore is scratch of the kernel; any other one keeps its value for the "
                "next kernel.",
                "wait for everything that arrives, every copy at both ends and every signal, and send no signal that "
                "nobody waits for.",
            )
    return None


def _arriving(order: Order, semaphore, number: int) -> str:
    """Return "8,192 bytes arrive" where copies signal the semaphore, and "2 signals arrive" where devices do."""
    of_copies = any(order.nodes[node][1].startswith("copy") for node, _ in order.signals[semaphore])
    if of_copies:
        return f"{number:,} bytes arrive"
    return f"{number:,} {'signal arrives' if number == 1 else 'signals arrive'}"
