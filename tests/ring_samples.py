"""Schedules of devices in a ring, recorded by hand: for the tests of the ring player."""

from course_lib import judges
from course_lib.judges.many_chips.record import Buffer, Event, Record, Semaphore
from course_lib.judges.many_chips.schedule import schedule

ACC, OUT, SEND, RECV = 1, 2, 10, 20  # numbers of buffers, and of the first semaphores


def gathering(n: int, back: bool = False) -> Record:
    """All-gather: n - 1 times each device passes on what has come last; ``back`` sends a second part the other way."""
    events = [[Event(device=device, kind="enter")] for device in range(n)]
    for device, does in enumerate(events):
        for step in range(n - 1):
            for way in (1, -1)[: 1 + back]:
                to, part = (device + way) % n, ((device - way * step) % n, slice(8 * (way < 0), 8 + 8 * (way < 0)))
                number = 2 * step + (way < 0)
                start = {
                    "buffer": Buffer("any", OUT, device), "target": Buffer("any", OUT, to), "part": part,
                    "target_part": part, "semaphore": Semaphore(RECV + number, to),
                    "send_semaphore": Semaphore(SEND + number, device), "amount": 4096,
                }  # fmt: skip
                does.append(Event(device=device, kind="start", **start))
            for way in (1, -1)[: 1 + back]:
                for first in (SEND, RECV):
                    where = Semaphore(first + 2 * step + (way < 0), device)
                    does.append(Event(device=device, kind="wait", semaphore=where, amount=4096, ended=True))
        does.append(Event(device=device, kind="write", buffer=Buffer("vmem", ACC, device), part=(slice(0, 8),)))
        does.append(Event(device=device, kind="leave"))
    names = {("any", OUT): "o_ref", ("vmem", ACC): "acc_ref"}
    names |= {number: f"send_sem[{number - SEND}]" for number in range(SEND, RECV)}
    names |= {number: f"recv_sem[{number - RECV}]" for number in range(RECV, RECV + 30)}
    return Record(events=events, names=names)


def one_way(n: int = 4) -> judges.Schedule:
    return schedule(gathering(n), "v5e", scale=100.0)


def both_ways(n: int = 4) -> judges.Schedule:
    """Both ways round the ring 0, 1, 3, 2, ..., and a core that works at the end."""
    ring = (0, 1, 3, 2, *range(4, n))
    return schedule(gathering(n, back=True), "v5e", ring, scale=100.0, work=lambda event: 5e-6)
