"""End a simulation in which nothing happens any more: a kernel that waits for what never comes."""

import contextlib
import threading
import time
from collections.abc import Iterator

from jax._src.pallas.mosaic.interpret import interpret_pallas_call as _interpret

IDLE_S = 4.0  # so long without work: the simulator polls while it waits, and computes otherwise
_POLL_S = 0.25
_BUSY_SHARE = 0.04  # of one core; threads of the simulator that only wait take less


class Stuck(TimeoutError):
    """The kernel waits for a signal that never comes."""


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
            _stop()
            return


def _stop() -> None:
    """End the simulation that runs in another thread, which then raises an error that names Stuck."""
    if (memory := _interpret._shared_memory) is not None:
        memory.set_failed(Stuck(), top_level=False)
