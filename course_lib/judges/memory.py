"""Memory that a kernel reads before it has written it: read off its code, step by step."""

from typing import NamedTuple

import numpy as np

from course_lib import grid


class Read(NamedTuple):
    """A read of memory that holds nothing of use: garbage, or what an earlier output block has left."""

    ref: str
    step: int
    written_at: int | None  # the first step that writes the ref at all; None: no step does
    left_by: int | None = None  # the step that wrote what is found there, if an earlier output block's did


def unwritten_read(call: grid.Call) -> Read | None:
    """The first read of an output or a scratch ref that nothing has written before; None if there is none.

    An output block is new memory whenever its block index changes.
    """
    for number, (name, fresh) in _own_memory(call).items():
        uses = _in_order(call, number)
        written, before = False, -1
        for step, kind in uses:
            written &= not fresh[before + 1 : step + 1].any()
            before = step
            if kind == "read" and not written:
                return Read(name, step, next((s for s, k in uses if k == "write"), None))
            written |= kind == "write"
    return None


def stale_read(call: grid.Call) -> Read | None:
    """The first read of scratch that finds there what the steps of another output block have left; None if none.

    It asks for outputs that stay put for several steps: sums that are collected in scratch.
    """
    outputs = [o for o in call.outputs if o.pipelined]
    begins = np.logical_or.reduce([o.changes for o in outputs]) if outputs else np.zeros(call.steps, bool)
    if begins.sum() < 2 or begins.all():
        return None
    block = np.cumsum(begins)
    operands = {operand.name for operand in call.operands}
    for number, (name, _) in _own_memory(call).items():
        if name in operands:
            continue
        last = None
        for step, kind in _in_order(call, number):
            if kind == "read" and last is not None and block[last] != block[step]:
                return Read(name, step, None, left_by=last)
            if kind == "write":
                last = step
    return None


def _own_memory(call: grid.Call) -> dict[int, tuple[str, np.ndarray]]:
    """{number: (name, bool[S]: it is new memory at this step)} of the refs that a kernel must write first."""
    operands, found = {operand.name: operand for operand in call.operands}, {}
    for use in grid.uses(call) or ():
        operand = operands.get(use.ref)
        if operand is None:
            found[use.number] = use.ref, np.arange(call.steps) == 0
        elif operand.role == "output" and operand.pipelined and operand.aliases is None:
            found[use.number] = use.ref, operand.changes
    return found


def _in_order(call: grid.Call, number: int) -> list[tuple[int, str]]:
    """(step, "read" or "write") of one ref in the order of time. A copy counts as a write of its target."""
    found = []
    for place, use in enumerate(grid.uses(call) or ()):
        if use.number == number and use.kind in ("read", "write", "start"):
            kind = "read" if use.kind == "read" else "write"
            found += [(step, place, kind) for step in use.steps.tolist()]
        if use.source_number == number and use.kind == "start":
            found += [(step, place, "read") for step in use.steps.tolist()]
    return [(step, kind) for step, _, kind in sorted(found)]
