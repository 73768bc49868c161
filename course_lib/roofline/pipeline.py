"""How long a pipeline of grid steps takes whose copies run ahead: what of their latency it hides, and what not.

A step asks for the blocks of a later one, waits for its own, computes, sends its results off, and waits until those
of the step before it have arrived. So with B buffers B copies are under way, and a step takes the longest of

    its work        (latency of a read + its bytes + work) / B        (latency of a write + its bytes + work) / 2

and of its bytes at the bandwidth of the HBM, which all copies share. The loop is read off the programs that the TPU's
compiler makes of a ``pallas_call``. With the latencies of the compiler's simulator, and with copies that share nothing,
it gives what the simulator gives, within 1 % for blocks of 4 KiB to 4 MiB; a test compares them.

viz/common/pipeline_model.js is the same in JavaScript.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Seconds until the HBM is free, the last write is done, the blocks of each later step are in.
_State = tuple[float, ...]
_TOGETHER = 64  # runs of equal steps that are looked up together
_ALIKE = 13  # digits after the point of a second: two states that agree in them are one


def seconds(
    work: np.ndarray,
    reads: np.ndarray,
    writes: np.ndarray,
    alone: np.ndarray,
    *,
    read_s: float,
    write_s: float,
    buffers: int = 2,
) -> float:
    """Seconds of all S steps, with the first read and the last write.

    ``work``: float64[S], seconds of the core. ``reads``, ``writes``, ``alone``: float64[S], seconds that the bytes of a
    step take at the bandwidth of the HBM; those of ``alone`` are read while nothing else happens, because their block
    has one buffer. ``read_s``, ``write_s``: what a copy takes beside its bytes.
    """
    ahead = np.zeros((buffers - 1) + len(work))
    ahead[: len(reads)] = reads
    state, total = (0.0, 0.0), 0.0
    for read in ahead[: buffers - 1]:
        state = _asked(state, read, read_s)
    rows, known = _runs(np.column_stack([ahead[buffers - 1 :], work, writes, alone])), {}
    for few in np.split(rows, range(_TOGETHER, len(rows), _TOGETHER)):
        same = _rounded(state), few.tobytes()  # inner axes of a grid go through the same again and again
        if same not in known:
            known[same] = _several(state, few.tolist(), read_s, write_s)
        took, state = known[same]
        total += took
    return total + state[1]


class Step(NamedTuple):
    """When a step does what, in seconds from the first copy on; None where it makes no such copy."""

    asked: float | None  # its read is asked for
    flows: float | None  # the first byte of it arrives
    arrives: float | None  # the last one
    starts: float  # the step before has ended, and the core waits for what it needs
    alone: float | None  # the read of blocks with one buffer is asked for
    begins: float  # all is there, and the core begins
    done: float  # the core has done its work
    leaves: float | None  # the first byte of its results leaves
    left: float | None  # the last one
    gone: float | None  # the write is answered
    ends: float  # the write of the step before is answered, too


def steps(
    work: Sequence[float],
    reads: Sequence[float],
    writes: Sequence[float],
    alone: Sequence[float],
    *,
    read_s: float,
    write_s: float,
    buffers: int = 2,
) -> list[Step]:
    """Each step of what ``seconds`` sums up, with the same arguments."""
    ahead = [*reads, *[0.0] * (buffers - 1)]
    state, copies, clock, found = (0.0, 0.0), [], 0.0, []
    for read in ahead[: buffers - 1]:
        copies.append((0.0, state[0] + read_s, state[0] + read + read_s) if read else (None, None, None))
        state = _asked(state, read, read_s)
    for read, *row in zip(ahead[buffers - 1 :], work, writes, alone, strict=True):
        t = _times(state, read, *row, read_s, write_s)
        flows = clock + state[0] + read_s
        copies.append((clock, flows, clock + t.arrives) if read else (None, None, None))
        found.append(
            Step(
                *copies[len(found)],
                starts=clock,
                alone=clock + t.alone if row[2] else None,
                begins=clock + t.begins,
                done=clock + t.done,
                leaves=clock + t.leaves if row[1] else None,
                left=clock + t.gone - write_s if row[1] else None,
                gone=clock + t.gone if row[1] else None,
                ends=clock + t.ends,
            )
        )
        state, clock = _after(state, t), clock + t.ends
    return found


def _asked(state: _State, read: float, read_s: float) -> _State:
    """The state before the first step, after one more read is asked for."""
    free = state[0] + read
    return (free, 0.0, *state[2:], free + read_s if read else 0.0)


def _runs(rows: np.ndarray) -> np.ndarray:
    """float64[runs, 1 + columns]: each row that differs from the one before it, behind how often it comes."""
    starts = np.append(0, 1 + np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)))
    return np.column_stack([np.diff(np.append(starts, len(rows))), rows[starts]])


def _rounded(state: _State) -> _State:
    return tuple(round(s, _ALIKE) for s in state)


def _several(state: _State, runs: list[list[float]], read_s: float, write_s: float) -> tuple[float, _State]:
    """Seconds of some runs of equal steps, and the state after them."""
    total = 0.0
    for count, *row in runs:
        took, state = _alike(state, row, int(count), read_s, write_s)
        total += took
    return total, state


def _alike(state: _State, row: list[float], count: int, read_s: float, write_s: float) -> tuple[float, _State]:
    """Seconds of ``count`` equal steps. Once a state returns, all goes round: the rest is multiplied."""
    done, total, seen = 0, 0.0, {}
    while done < count:
        if count > 2:
            known = _rounded(state)
            if known in seen:
                before, then = seen.pop(known)
                rounds = (count - done) // (done - before)
                done, total, seen = done + rounds * (done - before), total + rounds * (total - then), {}
                if done == count:
                    break
            seen[known] = done, total
        took, state = _step(state, *row, read_s, write_s)
        done, total = done + 1, total + took
    return total, state


def _step(state: _State, *row: float) -> tuple[float, _State]:
    """One step: its seconds, and the state after it."""
    times = _times(state, *row)
    return times.ends, _after(state, times)


class _Times(NamedTuple):
    """Of one step, in seconds from its start; of a copy that it does not make they mean nothing."""

    arrives: float  # of the read that the step asks for
    alone: float
    begins: float
    done: float
    leaves: float
    gone: float
    ends: float
    free: float  # no byte that was asked for is left to move


def _times(
    state: _State, ahead: float, work: float, write: float, alone: float, read_s: float, write_s: float
) -> _Times:
    free, written, *coming = state
    if ahead:
        free += ahead
    arrives = free + read_s if ahead else 0.0
    begins = alone_from = coming[0] if coming else arrives
    if alone:
        free = max(free, begins) + alone
        begins = free + read_s
    done = leaves = begins + work
    gone = 0.0
    if write:
        leaves = max(free, done)
        free = leaves + write
        gone = free + write_s
    return _Times(arrives, alone_from, begins, done, leaves, gone, max(done, written), free)


def _after(state: _State, t: _Times) -> _State:
    """The state at the end of a step."""
    coming = (*state[2:], t.arrives)[1:]
    return tuple(max(s - t.ends, 0.0) for s in (t.free, t.gone, *coming))
