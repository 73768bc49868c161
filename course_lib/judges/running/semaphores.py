"""What the simulator's semaphores hold when a kernel ends, and the wait that nothing answers."""

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

import numpy as np
from jax._src.pallas.mosaic.interpret import shared_memory as simulator

from course_lib import grid
from course_lib.judges.running.watchdog import Stuck
from course_lib.judges.verdict import Complaint


class Count(NamedTuple):
    """What happened to one semaphore of a kernel, in signals, or in bytes if copies signal it."""

    kernel: int  # of those with semaphores, in the order in which they ran
    number: int  # the simulator's, from ``Ledger.allocated``
    signalled: int
    waited: int
    held: int  # at the end of the kernel
    pending: bool  # whether a copy that nobody waited for would still signal it


@dataclasses.dataclass
class Ledger:
    """What one run of a function did to its semaphores."""

    allocated: list[dict[int, int]] = dataclasses.field(
        default_factory=list
    )  # of each kernel: {first number: how many}
    left: list[Count] = dataclasses.field(default_factory=list)  # those above zero at the end of a kernel
    endless: tuple[Count, int] | None = None  # a wait that would never end, and the amount that it waits for


@contextlib.contextmanager
def counted(ledger: Ledger) -> Iterator[None]:
    """Let the simulator enter in ``ledger`` what it does to semaphores, and raise Stuck for a wait without an end."""
    ledger.__init__()
    memories, places, signalled, waited = [], {}, {}, {}  # places: of a memory in ``memories``, by id
    signal, wait = simulator.Semaphore.signal, simulator.Semaphore.wait
    allocate = simulator.SharedMemory.allocate_semaphores
    guarantee = simulator.SharedMemory.guarantee_semaphore_with_fixed_id

    def count(semaphore) -> Count:
        return Count(
            places[id(semaphore.shared_memory)],
            semaphore.id,
            signalled.get(semaphore, 0),
            waited.get(semaphore, 0),
            int(semaphore.count_by_core.sum()),
            any(map(_is_pending, sum(semaphore.tasks, []))),
        )

    def signal_counted(self, inc, *args, **kwargs):
        signalled[self] = signalled.get(self, 0) + int(inc)
        return signal(self, inc, *args, **kwargs)

    def wait_counted(self, value, core, **kwargs):
        if self.shared_memory.num_cores == 1:  # there is nobody else who could signal
            while self.count_by_core[core] < value and self.tasks[core]:
                self.tasks[core].pop()()
            if self.count_by_core[core] < value and id(self.shared_memory) in places:
                ledger.endless = count(self), int(value)
                raise Stuck
        wait(self, value, core, **kwargs)
        waited[self] = waited.get(self, 0) + int(value)

    def entered(memory) -> dict[int, int]:
        if id(memory) not in places:
            places[id(memory)] = len(memories)
            memories.append(memory)
            ledger.allocated.append({})
        return ledger.allocated[places[id(memory)]]

    def allocate_counted(self, key, number):
        first = allocate(self, key, number)
        entered(self)[first] = number
        return first

    def guarantee_counted(self, number):
        entered(self)
        guarantee(self, number)

    with (
        mock.patch.object(simulator.Semaphore, "signal", signal_counted),
        mock.patch.object(simulator.Semaphore, "wait", wait_counted),
        mock.patch.object(simulator.SharedMemory, "allocate_semaphores", allocate_counted),
        mock.patch.object(simulator.SharedMemory, "guarantee_semaphore_with_fixed_id", guarantee_counted),
    ):
        yield
    counts = [count(one) for m in memories for one in (*m.sem.values(), *m.fixed_id_sem.values())]
    ledger.left += [one for one in counts if one.held or one.pending]


def _is_pending(task) -> bool:
    """Whether a semaphore's task is a copy that has not been made."""
    return getattr(getattr(getattr(task, "__self__", None), "state", None), "name", "") != "COMPLETED"


def left_over(walk: grid.Walk, ledger: Ledger) -> Complaint | None:
    """Report the first semaphore above zero at the end of a kernel, or copy that nobody waited for; None without one.

    The last instructions of a kernel halt the core if a semaphore of its scratch is above zero, says libtpu's program
    for a v5e, v5p and v6e. They do not check the barrier or ``pl.run_scoped``, so a later kernel's waits end too early.
    """
    if not ledger.left:
        return None
    count = ledger.left[0]
    call, name, copies = _named(walk, ledger, count)
    who = call.name if call else "a kernel"
    if not count.held:
        return Complaint(
            f"A copy on {name} is never waited for, so {name} is left signalled when {who} ends.",
            "wait for every copy, under the same condition that starts it.",
        )
    if copies:
        has, cure = (
            f"gets {count.signalled:,} bytes from copies, but the kernel waits for {count.waited:,}",
            "is copied",
        )
    else:
        has, cure = f"is signalled {_times(count.signalled)} and waited for {_times(count.waited)}", "is signalled"
    each = ""
    if call and call.steps > 1 and count.signalled % call.steps == count.waited % call.steps == 0:
        each = f" ({count.signalled // call.steps:,} and {count.waited // call.steps:,} at each of {call.steps} steps)"
    return Complaint(
        f"{name} {has}{each}, so {name} is left at {count.held:,} when {who} ends. A chip halts there if the "
        "semaphore is scratch of the kernel; any other one keeps its value for the next kernel.",
        f"wait for everything that {cure}: {count.signalled:,}{' bytes' if copies else ''}.",
    )


def endless(walk: grid.Walk, ledger: Ledger) -> Complaint | None:
    """Report the wait for a signal that never comes; None if there was none."""
    if ledger.endless is None:
        return None
    count, amount = ledger.endless
    call, name, copies = _named(walk, ledger, count)
    who, unit = call.name if call else "A kernel", " bytes" if copies else ""
    return Complaint(
        f"{who} waits for {amount:,}{unit} on {name}, which holds {count.held:,}: the signal never comes, and the wait "
        f"would never end. Until then {name} is signalled {_times(count.signalled, unit)} and waited for "
        f"{_times(count.waited, unit)}.",
        "call .start() once before each .wait()."
        if copies
        else "wait for no more than is signalled, and signal first.",
    )


def _times(number: int, unit: str = "") -> str:
    return f"{number:,}{unit or (' time' if number == 1 else ' times')}"


def _named(walk: grid.Walk, ledger: Ledger, count: Count) -> tuple[grid.Call | None, str, bool]:
    """Return (the kernel, the name of a semaphore, whether copies signal it), as far as they are known.

    The simulator numbers semaphores in the order in which it allocates them: a kernel's own first, then those of
    ``pl.run_scoped``, again at every step.
    """
    if not any(first <= count.number for first in ledger.allocated[count.kernel]):
        return None, "the barrier semaphore", False
    calls, unknown = [call for call in walk.calls if any(_semaphores(call))], "a semaphore"
    one_by_one = len(calls) == len(ledger.allocated) and all(call.times == 1 for call in calls)
    if not calls or (len(calls) > 1 and not one_by_one):
        return None, unknown, False
    call, allocated = calls[count.kernel if len(calls) > 1 else 0], ledger.allocated[count.kernel]
    place, first = max((n, first) for n, first in enumerate(allocated) if first <= count.number)
    own, scoped = _semaphores(call)
    candidates = own[place : place + 1] or scoped[(place - len(own)) % max(1, len(scoped)) :]
    if not candidates or math.prod(candidates[0].shape) != allocated[first]:
        return call, unknown, False
    ref = candidates[0]
    index = ", ".join(map(str, np.unravel_index(count.number - first, ref.shape))) if ref.shape else ""
    return call, f"{ref.name}[{index}]" if index else ref.name, "dma" in str(ref.dtype)


def _semaphores(call: grid.Call) -> tuple[list[grid.Scratch], list[grid.Scratch]]:
    """Return the semaphores that a kernel is given, and those that its body allocates."""
    return tuple(
        [ref for ref in refs if ref.memory_space == "semaphore"] for refs in (call.scratch, grid.scoped_scratch(call))
    )
