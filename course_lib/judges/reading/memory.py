"""What a kernel writes to memory and reads there, from step to step: read off its code, before it runs."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from course_lib import grid


class Read(NamedTuple):
    """A read of memory that holds nothing useful: garbage, or values that an earlier output block left."""

    ref: str
    step: int
    rows: tuple[int, int] | None = None  # (start, end) along the first axis, if only some were written
    written_at: int | None = None  # the first step that writes the ref before reading it, if any does
    left_by: int | None = None  # the step that wrote the values found, if of an earlier output block


class _Use(NamedTuple):
    """One use of a ref at one step. ``rows`` is (start, end) along its first axis; None if unknown."""

    step: int
    kind: str
    rows: tuple[int, int] | None
    length: int
    whole: bool
    columns: bytes | None = b""  # which part of the axes after the first; b"": all of it; None: unknown
    sure: bool = True  # False: under a condition that depends on an array's values


def known_uses(call: grid.Call) -> tuple[grid.Use, ...] | None:
    """Return where a kernel touches memory; None if that is unknown or too much to list."""
    try:
        return grid.memory_uses(call)
    except grid.UnreadableCall:
        return None


def unwritten_reads(call: grid.Call, doubtful: bool = False) -> Iterator[Read]:
    """Yield the first read of unwritten memory of each output and scratch ref, if there is one.

    An output block is new memory whenever its block index changes. ``doubtful``: yield reads, too, of memory that may
    have been written: under a condition on an array's values, at an unknown place, or in other columns.
    """
    for number, (name, fresh) in _own_memory(call).items():
        uses = _in_order(call, number)
        firsts = {use.step: use.kind for use in reversed(uses)}  # of each step
        first_write = next((step for step in sorted(firsts) if firsts[step] == "write"), None)
        length, before = max((use.length for use in uses), default=1), -1
        of_columns: dict[bytes | None, np.ndarray] = {}  # which rows have been written
        for use in uses:
            if fresh[before + 1 : use.step + 1].any():
                of_columns = {}
            before = use.step
            start, end = use.rows or (0, length)
            columns = use.columns if doubtful else b""
            written = of_columns.get(b"", np.zeros(length, bool))
            if use.kind == "write":
                if not doubtful or (use.sure and use.rows and columns is not None):
                    of_columns.setdefault(columns, np.zeros(length, bool))[max(0, start) : end] = True
                continue
            if columns:
                written = written | of_columns.get(columns, False)
            if not written.any():
                yield Read(name, use.step, written_at=first_write)
                break
            if (use.rows or doubtful) and not written[max(0, start) : end].all():
                gaps = np.flatnonzero(~written[:end])
                yield Read(name, use.step, rows=(int(gaps[0]), int(gaps[-1]) + 1), written_at=first_write)
                break


def stale_read(call: grid.Call) -> Read | None:
    """Return the first read of scratch that finds what another output block's steps left there; None if there is none.

    If every step has an output block of its own, scratch may carry something on, unless a block is revisited. So it may
    if no step of the new block writes to it: a second pass uses what the first has found.
    """
    begins = new_outputs(call)
    if begins.all() and not any(grid.returns(o) for o in call.outputs if o.pipelined):
        return None
    group = np.cumsum(begins)
    found = leftovers(call, group)
    return next((read for read in found if _written_in(call, read.ref, group == group[read.step])), None)


def _written_in(call: grid.Call, name: str, steps: np.ndarray) -> bool:
    """Whether one of ``steps`` (bool[S]) may write to the ref called ``name``."""
    return writes(call, name, np.flatnonzero(steps))[0]


def leftovers(call: grid.Call, group: np.ndarray) -> Iterator[Read]:
    """Yield the reads of scratch that find what a step of another group left; ``group``: int[S], one per step."""
    operands = {operand.name for operand in call.operands}
    for number, (name, _) in _own_memory(call).items():
        last = None
        for use in _in_order(call, number) if name not in operands else ():
            if use.kind == "read" and last is not None and group[last] != group[use.step]:
                yield Read(name, use.step, left_by=last)
            if use.kind == "write":
                last = use.step


def set_once(call: grid.Call, name: str) -> bool:
    """Whether only the first step of the grid writes all of a ref before it reads it."""
    begins = set()
    for number, (ref, _) in _own_memory(call).items():
        if ref == name:
            first = {use.step: use for use in reversed(_in_order(call, number))}
            begins |= {step for step, use in first.items() if use.kind == "write" and use.whole}
    return begins == {0}


def carries(call: grid.Call, steps: np.ndarray) -> bool:
    """Whether one of ``steps`` after the first starts from what an earlier one left, in an output or in scratch."""
    later = set(steps[1:].tolist())
    for number in _own_memory(call):
        seen = set()
        for use in _in_order(call, number):
            if use.step in later and use.step not in seen and (use.kind == "read" or not use.whole):
                return True
            seen.add(use.step)
    return False


def crosses_blocks(call: grid.Call) -> bool:
    """Whether scratch carries something from the steps of one output block to those of another."""
    return next(leftovers(call, np.cumsum(new_outputs(call))), None) is not None


def new_outputs(call: grid.Call) -> np.ndarray:
    """Return bool[S]: whether another output block begins at this step."""
    return np.logical_or.reduce([np.arange(call.steps) == 0, *(o.changes for o in call.outputs if o.pipelined)])


def writes(call: grid.Call, name: str, steps: np.ndarray) -> tuple[bool, bool]:
    """Return (whether one of ``steps`` may write to the ref called ``name``, whether it surely writes all of it)."""
    at = set(steps.tolist())
    found = [use for use in known_uses(call) or () if use.ref == name and use.kind in ("write", "start")]
    here = [use for use in found if at & set(use.steps.tolist())]
    return bool(here), any(use.whole and use.sure for use in here)


def rows_untouched(
    call: grid.Call, operand: grid.Operand, kinds: tuple[str, ...], steps: np.ndarray | None = None
) -> tuple[int, int] | None:
    """Return (start, end) of a block's first rows without a use of ``kinds``; None if there are none or unknown.

    ``steps``: those that count, int64[n]; None for all.
    """
    touches = [use for use in known_uses(call) or () if use.ref == operand.name and use.kind in kinds]
    if not touches or any(use.part is None for use in touches):
        return None
    seen = np.zeros(touches[0].length, bool)
    for use in touches:
        here = use.part if steps is None else use.part[np.isin(use.steps, steps)]
        for start, size in np.unique(here, axis=0).tolist():
            seen[max(0, start) : start + size] = True
    gaps = np.flatnonzero(~seen)
    if not len(gaps):
        return None
    end = next((n for n in range(gaps[0], len(seen)) if seen[n]), len(seen))
    return int(gaps[0]), int(end)


def outside(
    call: grid.Call, kinds: tuple[str, ...] = ("read", "write")
) -> tuple[str, int, tuple[int, int], int] | None:
    """Return (ref, step, (start, end), length) of the first use of rows that a ref does not have; None without one."""
    for use in known_uses(call) or ():
        if use.kind not in kinds or use.part is None:
            continue
        ends = use.part.sum(axis=1)
        wrong = np.flatnonzero((use.part[:, 0] < 0) | (ends > use.length))
        if len(wrong):
            return use.ref, int(use.steps[wrong[0]]), (int(use.part[wrong[0], 0]), int(ends[wrong[0]])), use.length
    return None


def _own_memory(call: grid.Call) -> dict[int, tuple[str, np.ndarray]]:
    """Return {number: (name, bool[S]: whether it is new memory at this step)} of the refs a kernel must write first."""
    operands, kept = {operand.name: operand for operand in call.operands}, {ref.name for ref in call.scratch}
    begins, found = np.arange(call.steps) == 0, {}
    for use in known_uses(call) or ():
        operand = operands.get(use.ref)
        if operand is None:  # pl.run_scoped allocates again at each step
            found[use.number] = use.ref, begins if use.ref in kept else np.ones(call.steps, bool)
        elif operand.role == "output" and (operand.pipelined or not operand.aliases):
            found[use.number] = use.ref, operand.changes if operand.pipelined else begins
    return found


def _in_order(call: grid.Call, number: int) -> list[_Use]:
    """Return the uses of one ref in the order of execution. A copy writes its target and reads its source."""
    found = []
    for place, use in enumerate(known_uses(call) or ()):
        if use.number == number and use.kind in ("read", "write", "start"):
            kind, part, length = "read" if use.kind == "read" else "write", use.part, use.length
            inner = None if use.wide else use.inner
        elif use.source_number == number and use.kind == "start":
            kind, part, length, inner = "read", use.source_part, use.source_length, use.source_inner
        else:
            continue
        rows = [None] * len(use.steps) if part is None else [(start, start + size) for start, size in part.tolist()]
        found += [
            (step, place, _Use(step, kind, r, length, use.whole, columns, use.sure))
            for step, r, columns in zip(use.steps.tolist(), rows, _columns(inner, len(rows)), strict=True)
        ]
    return [use for _, _, use in sorted(found, key=lambda f: f[:2])]


def _columns(inner: np.ndarray | None, entries: int) -> list[bytes | None]:
    """Return which part of the axes after the first each entry of a use touches; see ``_Use.columns``."""
    return [b""] * entries if inner is None else [None if (p[:, 1] < 0).any() else p.tobytes() for p in inner]
