"""The grid of a pltpu.emit_pipeline, reconstructed from what its kernel does.

Tracing turns an emit_pipeline into a loop of copies and waits and discards its grid and index maps. But every copy has
been followed: the k-th wait on a buffer waits for the k-th copy into it, and that block stays until the next wait. A
block that is written back was in use in all iterations since the previous write.
"""

import collections
import math

import numpy as np

from course_lib.grid.body import Copy, Loop
from course_lib.grid.call import Call, Operand, Pipeline
from course_lib.grid.following.follow import body
from course_lib.grid.unreadable import Reason, UnreadableCall


def inner_pipelines(call: Call) -> list[Pipeline]:
    """Return the pipelines inside a kernel, in the order they run. Raises UnreadableCall if one cannot be read."""
    followed = body(call)
    if followed.hidden_copies:
        raise UnreadableCall(
            f"the pipeline inside {call.name} cannot be read: {followed.hidden_copies}.", reason=Reason.ARRAY_VALUES
        )
    if call.steps > 1 and any(copy.turn for copy in followed.copies):
        raise UnreadableCall(f"{call.name} runs a pipeline at each step of a grid, which this library cannot read.")
    return [
        _pipeline(call, number, loop)
        for number, loop in enumerate(followed.loops)
        if any(copy.turn and copy.turn[0] == number for copy in followed.copies)
    ]


def _pipeline(call: Call, number: int, loop: Loop) -> Pipeline:
    followed = body(call)
    buffers = {copy.buffer for copy in followed.copies if copy.turn and copy.turn[0] == number}
    copies, waits = collections.defaultdict(list), collections.defaultdict(list)
    for copy in followed.copies:
        if copy.buffer in buffers:
            copies[copy.buffer].append(copy)
    for wait in followed.waits:
        waits[wait.buffer].append(wait.turn[1] if wait.turn and wait.turn[0] == number else loop.turns)
    grid = _grid(loop)
    operands = tuple(
        _input(call, moved, waits[buffer], loop) if moved[0].source_space == "hbm" else _output(call, moved, loop)
        for buffer, moved in copies.items()
    )
    return Pipeline(name=call.name, grid=grid, operands=operands)


def _grid(loop: Loop) -> tuple[int, ...]:
    """Return the ranges of the loop's counters, the last one fastest; a single axis if there are no counters."""
    for first in range(loop.counters.shape[1]):
        columns = loop.counters[:, first:]
        sizes = tuple(int(n) for n in columns.max(axis=0) + 1)
        if np.prod(sizes) == loop.turns and (columns.T == np.unravel_index(np.arange(loop.turns), sizes)).all():
            return sizes
    return (loop.turns,)


def _input(call: Call, copies: list[Copy], waits: list[int], loop: Loop) -> Operand:
    if len(copies) != len(waits) or waits[:1] != [0] or waits != sorted(waits):
        raise UnreadableCall(
            f"{call.name} does not wait once for each copy of {copies[0].source}: no pipeline is read."
        )
    until = [*waits[1:], loop.turns]
    return _operand(call, copies, [end - start for start, end in zip(waits, until, strict=True)], "input")


def _output(call: Call, copies: list[Copy], loop: Loop) -> Operand:
    turns = [copy.turn[1] if copy.turn else loop.turns - 1 for copy in copies]
    if not turns or turns[-1] != loop.turns - 1 or len(set(turns)) != len(turns):
        raise UnreadableCall(
            f"{call.name} does not write {copies[0].target} back at its last step: no pipeline is read."
        )
    return _operand(call, copies, np.diff([-1, *turns]).tolist(), "output")


def _operand(call: Call, copies: list[Copy], repeats: list[int], role: str) -> Operand:
    """Return the operand that ``copies`` describe, in order; block k stays for ``repeats[k]`` steps."""
    name = copies[0].source if role == "input" else copies[0].target
    whole = next(o for o in call.operands if o.name == name)
    block = tuple(max(copy.shape[axis] for copy in copies) for axis in range(len(whole.shape)))
    if any(copy.starts is None for copy in copies):
        raise UnreadableCall(
            f"the block of {name} that {call.name} copies depends on an array's values.", reason=Reason.ARRAY_VALUES
        )
    starts = np.repeat(np.concatenate([copy.starts for copy in copies]), repeats, axis=0)
    element = tuple(bool((starts[:, axis] % size).any()) for axis, size in enumerate(block))
    scale = np.array([1 if e else size for e, size in zip(element, block, strict=True)], np.int64)
    return Operand(
        name=name,
        role=role,
        shape=whole.shape,
        dtype=whole.dtype,
        block_shape=block,
        buffers=max(1, copies[0].room // math.prod(block)),
        indices=starts // scale,
        element=element if any(element) else (),
        padding=((0, 0),) * len(block) if any(element) else (),
        by_hand=True,
    )
