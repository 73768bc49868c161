"""The end of a simulation in which nothing happens any more, because a kernel waits for ever."""

import contextlib
import pathlib
import threading
import time
from collections.abc import Iterator

from jax._src.pallas.mosaic.interpret import interpret_pallas_call as _interpret
from jax._src.pallas.mosaic_gpu.interpret import gpu_callbacks as _interpret_gpu

IDLE_S = 4.0  # without work: a simulator that waits only polls
_POLL_S = 0.25
_BUSY_SHARE = 0.04  # of one core; the simulator's waiting threads use less
_STARVED_SHARE = 0.5  # threads that run or wait for a processor this much of the time are at work on a busy machine
_TASKS, _STAT = pathlib.Path("/proc/self/task"), pathlib.Path("/proc/self/stat")  # Linux


class Stuck(TimeoutError):
    """The kernel waits for a signal that never comes."""


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """End the simulation inside the block once the process has done almost no work for IDLE_S seconds."""
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
    worked, fetched, wanted = time.process_time(), _pages_fetched(), _wanted_s()
    while not done.wait(_POLL_S):
        now, work, pages = time.monotonic(), time.process_time(), _pages_fetched()
        slept, looked = now - looked > IDLE_S / 2, now  # the whole process was suspended
        at_work = work - worked > _BUSY_SHARE * IDLE_S or pages > fetched or slept
        if not at_work and now - since > IDLE_S and not starved(wanted, _wanted_s(), now - since):
            _stop()
            return
        if at_work or now - since > IDLE_S:
            since, worked, fetched, wanted = now, work, pages, _wanted_s()


def starved(before: dict[str, float], after: dict[str, float], seconds: float) -> bool:
    """Whether threads wanted a processor for most of the ``seconds`` between two results of ``_wanted_s``."""
    return sum(wanted - before.get(thread, 0.0) for thread, wanted in after.items()) > _STARVED_SHARE * seconds


def _pages_fetched() -> int:
    """Return how many pages this process has waited for because they came from the disk; 0 unless on Linux."""
    try:
        after_the_name = _STAT.read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(after_the_name[9])  # majflt in proc_pid_stat(5)


def _wanted_s() -> dict[str, float]:
    """Return the seconds that each thread of this process has run or waited for a processor; empty unless on Linux."""
    found = {}
    for task in _TASKS.glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError):  # the thread has ended
            ran, waited, _ = map(int, task.read_text().split())
            found[task.parent.name] = (ran + waited) / 1e9
    return found


def _stop() -> None:
    """End the simulation in the other thread, which then raises an error that names Stuck."""
    for interpreter in (_interpret, _interpret_gpu):
        if (memory := interpreter._shared_memory) is not None:
            memory.set_failed(Stuck(), top_level=False)
