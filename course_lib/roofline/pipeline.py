"""How long a pipeline of grid steps takes if its copies run ahead, and how much of their latency it hides.

A step requests the blocks of a later step, waits for its own, computes, sends its results off, and waits until those of
the step before have arrived. With B buffers, B copies are therefore in flight, and a step takes the longest of

    its work        (latency of a read + its bytes + work) / B        (latency of a write + its bytes + work) / 2

and its bytes at the bandwidth of the HBM, which all copies share. The loop follows the programs that the TPU's compiler
generates for a ``pallas_call``. With the latencies of the compiler's simulator, and copies that do not share bandwidth,
its times agree with the simulator's within 1 % for blocks of 4 KiB to 4 MiB; a test compares them.

viz/common/pipeline_model.js is the same model in JavaScript.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Seconds until the HBM is free, until the last write is done, and until the blocks of each later step have arrived.
_State = tuple[float, ...]
_TOGETHER = 64  # runs of equal steps that are looked up together
_ALIKE = 13  # decimals of a second: states that agree to this many digits are the same


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
    """Return the seconds of all S steps, with the first read and the last write.

    ``work``: float64[S], seconds of the core. ``reads``, ``writes``, ``alone``: float64[S], seconds that the bytes of a
    step take at the bandwidth of the HBM; those of ``alone`` are read while nothing else happens, because their block
    has one buffer. ``read_s``, ``write_s``: the latency that a copy takes in addition to its bytes.
    """
    ahead = np.zeros((buffers - 1) + len(work))
    ahead[: len(reads)] = reads
    state, total = (0.0, 0.0), 0.0
    for read in ahead[: buffers - 1]:
        state = _asked(state, read, read_s)
    rows, known = _runs(np.column_stack([ahead[buffers - 1 :], work, writes, alone])), {}
    for few in np.split(rows, range(_TOGETHER, len(rows), _TOGETHER)):
        same = _rounded(state), few.tobytes()  # inner grid axes repeat the same steps again and again
        if same not in known:
            known[same] = _several(state, few.tolist(), read_s, write_s)
        took, state = known[same]
        total += took
    return total + state[1]


class Step(NamedTuple):
    """The events of a step, in seconds from the first copy; None for a copy that the step does not make."""

    asked: float | None  # its read is requested
    flows: float | None  # the first byte of it arrives
    arrives: float | None  # the last byte of it arrives
    starts: float  # the step before has ended, and the core waits for its inputs
    alone: float | None  # the read of blocks with one buffer is requested
    begins: float  # all inputs have arrived, and the core begins
    done: float  # the core has done its work
    leaves: float | None  # the first byte of its results leaves
    left: float | None  # the last byte of them leaves
    gone: float | None  # the write is acknowledged
    ends: float  # the write of the step before is acknowledged, too


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
    """Return each step of what ``seconds`` adds up, from the same arguments."""
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
    """Return the state before the first step, after one more read is requested."""
    free = state[0] + read
    return (free, 0.0, *state[2:], free + read_s if read else 0.0)


def _runs(rows: np.ndarray) -> np.ndarray:
    """Return each row that differs from the row before it, after its number of repeats: float64[runs, 1 + columns]."""
    starts = np.append(0, 1 + np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)))
    return np.column_stack([np.diff(np.append(starts, len(rows))), rows[starts]])


def _rounded(state: _State) -> _State:
    return tuple(round(s, _ALIKE) for s in state)


def _several(state: _State, runs: list[list[float]], read_s: float, write_s: float) -> tuple[float, _State]:
    """Return the seconds of some runs of equal steps, and the state after them."""
    total = 0.0
    for count, *row in runs:
        took, state = _alike(state, row, int(count), read_s, write_s)
        total += took
    return total, state


def _alike(state: _State, row: list[float], count: int, read_s: float, write_s: float) -> tuple[float, _State]:
    """Return the seconds of ``count`` equal steps. Once a state recurs, the rest repeats and is multiplied."""
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
    """Return the seconds of one step, and the state after it."""
    times = _times(state, *row)
    return times.ends, _after(state, times)


class _Times(NamedTuple):
    """The times of one step, in seconds from its start; those of a copy that it does not make are meaningless."""

    arrives: float  # of the read that the step requests
    alone: float
    begins: float
    done: float
    leaves: float
    gone: float
    ends: float
    free: float  # no requested bytes are left to move


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
    """Return the state at the end of a step."""
    coming = (*state[2:], t.arrives)[1:]
    return tuple(max(s - t.ends, 0.0) for s in (t.free, t.gone, *coming))
