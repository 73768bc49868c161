"""A schedule of several devices as data for a picture: lanes, bars, the moments at which something changes, words."""

from typing import NamedTuple

from course_lib import text

MOST_BARS = 600
_SHOWN = 3  # links, or devices that wait, that a sentence names


class Bar(NamedTuple):
    """What a lane does from ``begin`` to ``end``, in us; ``cause`` is the bar that it had to wait for, or -1."""

    lane: int
    begin: float
    end: float
    what: str
    cause: int


class Moves(NamedTuple):
    """All that happens between the devices of a ring."""

    ring: tuple[int, ...]  # the devices in the order of their links
    lanes: tuple[str, ...]  # "link 0 to 1" ..., then "core of 0" ...
    bars: tuple[Bar, ...]
    waits: tuple[tuple[int, float, float, str], ...]  # device, begin, end, what it waits for
    times: tuple[float, ...]  # microseconds at which something begins or ends
    end: float
    title: str


def moves(schedule) -> Moves:
    """Return the data of a ``judges.Schedule``. Copies within a device are left out, but not what waits for them."""
    record = schedule.record
    shown = [span for span in schedule.spans if not span.lane.startswith("HBM")]
    names = sorted({span.lane for span in shown}, key=lambda name: (kind_of(name, schedule.ring), name))
    number = {name: n for n, name in enumerate(names)}
    last = {id(span.event): n for n, span in enumerate(shown)}  # of a copy over several links the last bar
    first: dict[int, int] = {}
    for n, span in enumerate(shown):
        first.setdefault(id(span.event), n)
    bars, what = [], _names([span.event for span in shown], record)
    for n, span in enumerate(shown):
        before = last.get(id(span.cause), -1) if first[id(span.event)] == n else n - 1
        bars.append(Bar(number[span.lane], _us(span.begin), _us(span.end), what[id(span.event)], before))
    waits = tuple(
        (w.event.device, _us(w.begin), _us(w.end), record.semaphore_named(w.event.semaphore))
        for w in schedule.waits
        if w.end > w.begin
    )
    end = _us(schedule.seconds)
    changes = {0.0, end} | {t for bar in bars for t in (bar.begin, bar.end)} | {t for w in waits for t in w[1:3]}
    lane, share = schedule.busiest()
    title = f"{len(schedule.ring)} devices, {clock(end)}, predicted (model)"
    title += f": {lane} is busy for {share:.0%} of it".replace("%", " %") if lane else ""
    return Moves(schedule.ring, tuple(names), tuple(bars), waits, tuple(sorted(changes)), end, title)


def said(found: Moves, number: int) -> str:
    """Return what happens from moment ``number`` on, in words."""
    now = found.times[number]
    busy = [bar for bar in found.bars if bar.begin <= now < bar.end]
    waiting = sorted((device, what) for device, begin, end, what in found.waits if begin <= now < end)
    if not busy and not waiting:
        return f"At {clock(now)}, {'all devices are done' if now >= found.end else 'nothing is under way'}."
    lanes = [found.lanes[bar.lane] for bar in busy]
    parts = [
        f"{lane} {'carries' if 'link' in lane else 'writes'} {bar.what}" for lane, bar in zip(lanes, busy, strict=True)
    ]
    words = f"At {clock(now)}, {_listed(parts) if parts else 'no link carries anything'}."
    if not waiting:
        return words
    device, what = waiting[0]
    if len(waiting) == 1:
        return f"{words} Device {device} waits for {what}."
    who = "All devices" if len(waiting) == len(found.ring) else f"{len(waiting)} devices"
    return f"{words} {who} wait; device {device} waits for {what}."


def as_text(found: Moves, number: int) -> str:
    """Return a line for each lane, with its share of the time, and what happens at one moment."""
    rows = [("", "busy", "carries, or writes")]
    for n, lane in enumerate(found.lanes):
        own = [bar for bar in found.bars if bar.lane == n]
        rows.append((lane, _share(own, found.end), "; ".join(dict.fromkeys(bar.what for bar in own))))
    return text.folded("\n".join([found.title, said(found, number), *text.table(rows, right={1})]))


def shares(found: Moves) -> list[str]:
    """Return for each lane how long it is busy, as "93 %" of the whole."""
    return [_share([bar for bar in found.bars if bar.lane == n], found.end) for n in range(len(found.lanes))]


def telling_moment(found: Moves) -> int:
    """Return the number of the moment at which most is under way: the first of them."""
    return max(range(len(found.times)), key=lambda n: (sum(b.begin <= found.times[n] < b.end for b in found.bars), -n))


def _share(bars: list[Bar], end: float) -> str:
    return f"{sum(bar.end - bar.begin for bar in bars) / end:.0%}".replace("%", " %") if end else "0 %"


def kind_of(lane: str, ring: tuple[int, ...]) -> int:
    """Return 0 for a link to the next device round the ring, 1 for one to the device before, 2 for a core."""
    if "link" not in lane:
        return 2
    one, other = (ring.index(int(word)) for word in lane.split() if word.isdigit())
    return 0 if (other - one) % len(ring) == 1 else 1


def _names(events: list, record) -> dict[int, str]:
    """Return id of an event -> what it copies or writes: "o_ref[3]". Axes of which all take the same are left out."""
    parts = {id(event): tuple(map(_index, event.part)) for event in events}
    taken: dict[tuple, set] = {}
    for event in events:
        for axis, index in enumerate(parts[id(event)]):
            taken.setdefault((event.buffer[:2], axis), set()).add(index)
    found = {}
    for event in events:
        kept = [i for axis, i in enumerate(parts[id(event)]) if ":" not in i or len(taken[event.buffer[:2], axis]) > 1]
        name = record.names.get(event.buffer[:2], "a buffer")
        found[id(event)] = f"{name}[{', '.join(kept)}]" if kept else name
    return found


def _index(part) -> str:
    return str(part) if isinstance(part, int) else f"{part.start}:{part.stop}"


def _listed(parts: list[str]) -> str:
    more = len(parts) - _SHOWN
    shown = parts[:_SHOWN] + ([f"{more} more"] if more > 0 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 4)


def clock(us: float) -> str:
    """Return a time in words: "1,234.5 us"."""
    return f"{us:,.1f} us"


def bar_said(bar: Bar) -> str:
    """Return what a bar stands for: "o_ref[3], 1.0 to 94.2 us"."""
    return f"{bar.what}, {bar.begin:,.1f} to {clock(bar.end)}"
