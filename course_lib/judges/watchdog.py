"""End a simulation in which nothing happens any more: a kernel that waits for what never comes."""

import contextlib
import threading
import time
from collections.abc import Iterator

from course_lib import compat

IDLE_S = 4.0  # so long without work: the simulator polls while it waits, and computes otherwise
_POLL_S = 0.25
_BUSY_SHARE = 0.04  # of one core; waiting threads of the simulator take about a hundredth

STUCK = "the kernel waits for a signal that never comes"


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """While the block runs: once the process has done next to nothing for IDLE_S seconds, the simulation ends."""
    done = threading.Event()
    thread = threading.Thread(target=_watch, args=(done,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _watch(done: threading.Event) -> None:
    since, worked = time.monotonic(), time.process_time()
    while not done.wait(_POLL_S):
        now, work = time.monotonic(), time.process_time()
        if work - worked > _BUSY_SHARE * IDLE_S:
            since, worked = now, work
        elif now - since > IDLE_S:
            compat.stop_simulation(STUCK)
            return
