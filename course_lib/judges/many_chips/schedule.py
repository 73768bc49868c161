"""A predicted (model) time: the record played against a clock, with links of a given bandwidth between the devices.

Each device starts what it starts as soon as its waits allow. A copy takes the links of the shorter way round the ring,
one after another, and each link carries one copy at a time. Copies within a device read and write its HBM. Arithmetic
takes what ``work`` says, nothing unless it is given. Bandwidth and the time of a hop are those of ``chips.links``.
"""

import collections
import dataclasses
import heapq
import itertools
import math
from collections.abc import Callable, Sequence

import jax

from course_lib import chips
from course_lib.judges.many_chips.record import Event, Record, recorded

_OTHER_HOP_S = 1e-6  # where no figure is published: that of a v5e
_IN_HBM = "any", "hbm"  # spaces of the simulator; it copies between HBM and VMEM as well


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """Something that keeps a lane busy: "link 0 to 1", "HBM of 2" or "core of 3"."""

    lane: str
    event: Event
    begin: float  # seconds
    end: float
    cause: Event | None = None  # what arrived last before the device started this


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """When everything happens: predicted (model)."""

    seconds: float
    spans: tuple[Span, ...]
    waits: tuple[Span, ...]  # when "device 2" waits, and the event that it waits in
    ring: tuple[int, ...]  # the devices in the order in which links join them
    record: Record

    def busy(self) -> dict[str, float]:
        """Return the seconds that each lane is busy."""
        seconds: dict[str, float] = collections.defaultdict(float)
        for span in self.spans:
            seconds[span.lane] += span.end - span.begin
        return dict(seconds)

    def busiest(self) -> tuple[str, float]:
        """Return the lane that is busy longest, and for what share of the time; ("", 0.0) if nothing is copied."""
        busy = self.busy()
        lane = max(busy, key=busy.get, default="")
        return lane, busy[lane] / self.seconds if lane else 0.0


def schedule_chips(
    fn: Callable,
    *args,
    mesh: Sequence[int] = (4,),
    axes: Sequence[str] = ("d",),
    chip: str = "v5e",
    ring: Sequence[int] | None = None,
    scale: float = 1.0,
    work: Callable[[Event], float] | None = None,
) -> Schedule:
    """Return when each copy of ``fn(*args)`` is under way between chips: predicted (model).

    ``fn``, ``args``, ``mesh``, ``axes`` and ``ring`` are those of ``judge_chips``, which ``fn`` should pass. ``scale``
    multiplies the bytes of all copies, so that small arrays stand for large ones. ``work(event)`` returns the seconds
    that the core needs for what it writes at an event; without it, arithmetic takes no time.

    Raises ValueError if this process has fewer CPU devices than the mesh, if the bandwidth of the chip's links is not
    published, or if a wait never ends, and whatever ``fn`` raises.
    """
    target, devices, there = chips.chip(chip), math.prod(mesh), len(jax.devices("cpu"))
    if there < devices:
        raise ValueError(
            f"mesh is {tuple(mesh)}, but this process has {there} CPU devices; it needs {devices}. Try "
            f'jax.config.update("jax_num_cpu_devices", {max(8, devices)}) before the first array is made.'
        )
    if chips.links(chip).link_bandwidth is None:
        known = [name for name in chips.NAMES if chips.links(name).link_bandwidth]
        raise ValueError(f"chip is {chip!r}, whose links have no published bandwidth. Choose one of {known}.")
    seen = recorded(fn, args, mesh, axes, target, "on_wait")
    if seen.error is not None:
        raise seen.error
    return schedule(seen, chip, ring, scale, work)


def schedule(
    record: Record,
    chip: str = "v5e",
    ring: Sequence[int] | None = None,
    scale: float = 1.0,
    work: Callable[[Event], float] | None = None,
) -> Schedule:
    """Return when each copy of a record is under way, if the devices of ``ring`` are linked in that order.

    ``scale`` multiplies the bytes of copies: the record of small arrays then stands for large ones. ``work(event)``:
    the seconds of a write by the core. ``chip`` is one whose ``chips.links`` have a bandwidth, and ``ring`` has every
    device once. Raises ValueError for a record with a wait that does not end.
    """
    devices = len(record.events)
    ring = tuple(range(devices) if ring is None else ring)
    links, hbm = chips.links(chip), chips.chip(chip).hbm_bandwidth
    hop = links.hop_s or _OTHER_HOP_S
    place = {device: n for n, device in enumerate(ring)}
    free: dict[str, float] = collections.defaultdict(float)
    spans: list[Span] = []

    def hops(one: int, other: int) -> list[str]:
        """Return the links of the shorter way round."""
        right = (place[other] - place[one]) % devices
        step, count = (1, right) if right <= devices - right else (-1, devices - right)
        on_the_way = [ring[(place[one] + n * step) % devices] for n in range(count + 1)]
        return [f"link {a} to {b}" for a, b in itertools.pairwise(on_the_way)]

    def copied(event: Event, now: float, cause: Event | None) -> tuple[float, float]:
        """Return (when the source has been read, when the target has been written)."""
        size = event.amount * scale
        if event.device == event.target.device:
            lane = f"HBM of {event.device}"
            begin = max(now, free[lane])
            ends = sum(end.space in _IN_HBM for end in (event.buffer, event.target))
            free[lane] = begin + ends * size / hbm
            spans.append(Span(lane=lane, event=event, begin=begin, end=free[lane], cause=cause))
            return free[lane], free[lane]
        way, seconds = hops(event.device, event.target.device), size / links.link_bandwidth
        begin = max([now, *(free[lane] - n * hop for n, lane in enumerate(way))])
        for n, lane in enumerate(way):
            free[lane] = begin + n * hop + seconds
            spans.append(Span(lane=lane, event=event, begin=begin + n * hop, end=free[lane], cause=cause))
        return begin + seconds, begin + len(way) * hop + seconds

    waits: list[Span] = []
    seconds = _played(record, copied, hops, hop, work, spans, waits)
    return Schedule(seconds=seconds, spans=tuple(spans), waits=tuple(waits), ring=ring, record=record)


def _played(
    record: Record,
    copied: Callable,
    hops: Callable,
    hop: float,
    work: Callable | None,
    spans: list[Span],
    waits: list[Span],
) -> float:
    """Return when the last event is over, once all are played. ``spans`` gets the cores' work, ``waits`` the waits."""
    held, blocked, at = collections.Counter(), {}, [0] * len(record.events)
    arrived: dict = {}  # semaphore -> the event of what arrived there last
    cause: list[Event | None] = [None] * len(record.events)
    since: dict[int, float] = {}  # device -> when its wait began
    ticks, last = itertools.count(), 0.0
    queue = [(0.0, next(ticks), ("goes on", device)) for device in range(len(record.events))]

    def later(when: float, what: tuple) -> None:
        heapq.heappush(queue, (when, next(ticks), what))

    while queue:
        now, _, what = heapq.heappop(queue)
        last = max(last, now)
        if what[0] == "arrives":
            held[what[1]] += what[2]
            arrived[what[1]] = what[3]
            if what[1] in blocked:
                later(now, ("goes on", blocked.pop(what[1])))
            continue
        device = what[1]
        while at[device] < len(record.events[device]):
            event = record.events[device][at[device]]
            if event.kind == "wait":
                if held[event.semaphore] < event.amount:
                    blocked[event.semaphore] = device
                    since.setdefault(device, now)
                    break
                held[event.semaphore] -= event.amount
                cause[device] = arrived.get(event.semaphore)
                if device in since:
                    waits.append(Span(lane=f"device {device}", event=event, begin=since.pop(device), end=now))
            elif event.kind == "start":
                read, written = copied(event, now, cause[device])
                later(written, ("arrives", event.semaphore, event.amount, event))
                if event.send_semaphore:
                    later(read, ("arrives", event.send_semaphore, event.amount, event))
            elif event.kind == "signal":
                there = now + hop * len(hops(device, event.semaphore.device))
                later(there, ("arrives", event.semaphore, event.amount, event))
            at[device] += 1
            if work and event.kind == "write" and (seconds := work(event)):
                lane, then = f"core of {device}", now + seconds
                spans.append(Span(lane=lane, event=event, begin=now, end=then, cause=cause[device]))
                later(then, ("goes on", device))
                break
    if any(place < len(events) for place, events in zip(at, record.events, strict=True)):
        raise ValueError("The record has a wait that never ends, so it has no schedule.")
    return last
