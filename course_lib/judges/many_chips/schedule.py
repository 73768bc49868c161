"""A predicted (model) time: the record played against a clock, with links of a given bandwidth between the devices.

Each device starts what it starts as soon as its waits allow. A copy takes the links of the shorter way round the ring,
one after another, and each link carries one copy at a time. Copies within a device read and write its HBM. Arithmetic
takes what ``work`` says, nothing unless it is given. Bandwidth and the time of a hop are those of ``chips.links``.
"""

import collections
import dataclasses
import heapq
import itertools
from collections.abc import Callable, Sequence

from course_lib import chips
from course_lib.judges.many_chips.record import Event, Record

_OTHER_HOP_S = 1e-6  # where no figure is published: that of a v5e


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """Something that keeps a lane busy: "link 0 to 1", "HBM of 2" or "core of 3"."""

    lane: str
    event: Event
    begin: float  # seconds
    end: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """When everything happens: predicted (model)."""

    seconds: float
    spans: tuple[Span, ...]

    def busy(self) -> dict[str, float]:
        """Return the seconds that each lane is busy."""
        seconds: dict[str, float] = collections.defaultdict(float)
        for span in self.spans:
            seconds[span.lane] += span.end - span.begin
        return dict(seconds)


def schedule(
    record: Record,
    chip: str = "v5e",
    ring: Sequence[int] | None = None,
    scale: float = 1.0,
    work: Callable[[Event], float] = lambda event: 0.0,
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

    def copied(event: Event, now: float) -> tuple[float, float]:
        """Return (when the source has been read, when the target has been written)."""
        size = event.amount * scale
        if event.device == event.target.device:
            lane = f"HBM of {event.device}"
            begin = max(now, free[lane])
            free[lane] = begin + 2 * size / hbm
            spans.append(Span(lane=lane, event=event, begin=begin, end=free[lane]))
            return free[lane], free[lane]
        way, seconds = hops(event.device, event.target.device), size / links.link_bandwidth
        begin = max([now, *(free[lane] - n * hop for n, lane in enumerate(way))])
        for n, lane in enumerate(way):
            free[lane] = begin + n * hop + seconds
            spans.append(Span(lane=lane, event=event, begin=begin + n * hop, end=free[lane]))
        return begin + seconds, begin + len(way) * hop + seconds

    return Schedule(seconds=_played(record, copied, hops, hop, work, spans), spans=tuple(spans))


def _played(record: Record, copied: Callable, hops: Callable, hop: float, work: Callable, spans: list[Span]) -> float:
    """Return when the last event is over, once all are played. ``spans`` gets the work of the cores."""
    held, blocked, at = collections.Counter(), {}, [0] * len(record.events)
    ticks, last = itertools.count(), 0.0
    queue = [(0.0, next(ticks), ("goes on", device)) for device in range(len(record.events))]

    def later(when: float, what: tuple) -> None:
        heapq.heappush(queue, (when, next(ticks), what))

    while queue:
        now, _, what = heapq.heappop(queue)
        last = max(last, now)
        if what[0] == "arrives":
            held[what[1]] += what[2]
            if what[1] in blocked:
                later(now, ("goes on", blocked.pop(what[1])))
            continue
        device = what[1]
        while at[device] < len(record.events[device]):
            event = record.events[device][at[device]]
            if event.kind == "wait":
                if held[event.semaphore] < event.amount:
                    blocked[event.semaphore] = device
                    break
                held[event.semaphore] -= event.amount
            elif event.kind == "start":
                sent, arrived = copied(event, now)
                later(arrived, ("arrives", event.semaphore, event.amount))
                if event.send_semaphore:
                    later(sent, ("arrives", event.send_semaphore, event.amount))
            elif event.kind == "signal":
                later(now + hop * len(hops(device, event.semaphore.device)), ("arrives", event.semaphore, event.amount))
            at[device] += 1
            if event.kind == "write" and (seconds := work(event)):
                spans.append(Span(lane=f"core of {device}", event=event, begin=now, end=now + seconds))
                later(now + seconds, ("goes on", device))
                break
    if any(place < len(events) for place, events in zip(at, record.events, strict=True)):
        raise ValueError("The record has a wait that never ends, so it has no schedule.")
    return last
