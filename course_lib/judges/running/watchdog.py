"""End a simulation in which nothing happens any more: a kernel that waits for what never comes."""

import contextlib
import pathlib
import threading
import time
from collections.abc import Iterator

from jax._src.pallas.mosaic.interpret import interpret_pallas_call as _interpret
from jax._src.pallas.mosaic_gpu.interpret import gpu_callbacks as _interpret_gpu

IDLE_S = 4.0  # so long without work: the simulator polls while it waits, and computes otherwise
_POLL_S = 0.25
_BUSY_SHARE = 0.04  # of one core; threads of the simulator that only wait take less
_STARVED_SHARE = (
    0.5  # of the time a thread ran or waited for a processor: it works, on a machine that has too much to do
)
_TASKS = pathlib.Path("/proc/self/task")  # Linux


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
    looked = since = time.monotonic()
    worked, wanted = time.process_time(), _wanted_s()
    while not done.wait(_POLL_S):
        now, work = time.monotonic(), time.process_time()
        slept, looked = now - looked > IDLE_S / 2, now  # the whole process was stopped for a while
        if work - worked > _BUSY_SHARE * IDLE_S or slept:
            since, worked, wanted = now, work, _wanted_s()
        elif now - since > IDLE_S:
            if not starved(wanted, _wanted_s(), now - since):
                _stop()
                return
            since, worked, wanted = now, work, _wanted_s()


def starved(before: dict[str, float], after: dict[str, float], seconds: float) -> bool:
    """Whether a thread wanted a processor for most of the ``seconds`` between two answers of ``_wanted_s``."""
    return any(wanted - before.get(thread, 0.0) > _STARVED_SHARE * seconds for thread, wanted in after.items())


def _wanted_s() -> dict[str, float]:
    """Seconds that each thread of this process has run, or waited for a processor; nothing where Linux does not say."""
    found = {}
    for task in _TASKS.glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError):  # the thread has ended
            ran, waited, _ = map(int, task.read_text().split())
            found[task.parent.name] = (ran + waited) / 1e9
    return found


def _stop() -> None:
    """End the simulation that runs in another thread, which then raises an error that names Stuck."""
    for interpreter in (_interpret, _interpret_gpu):
        if (memory := interpreter._shared_memory) is not None:
            memory.set_failed(Stuck(), top_level=False)
