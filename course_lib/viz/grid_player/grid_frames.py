"""What the grid player shows of a kernel, as compact arrays: which block each operand has at every step.

An operand stays on a block for a run of steps, so runs are stored: the number of the block and the number of steps.
Everything else (what is copied, written back, or was seen before) follows from the runs, in the browser.
"""

import math
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from course_lib import cost, grid, text
from course_lib.viz.grid_player import grid_accumulator

MOST_STEPS = 1_000_000  # of a grid; more would make the notebook that holds a player heavy
MOST_WINDOWS = 100_000  # manual copies whose place in the array is drawn


class Shown(NamedTuple):
    """A grid to step through: that of a pallas_call, or of one emit_pipeline inside a kernel."""

    title: str
    pipeline: grid.Pipeline
    notes: tuple[str, ...] = ()


class Runs(NamedTuple):
    """The blocks of one operand in grid order: R runs over D distinct blocks."""

    lengths: np.ndarray  # int64[R]: grid steps that a run lasts
    block: np.ndarray  # int64[R]: which of the D blocks
    since: np.ndarray  # int64[R]: runs since the previous visit of the same block; 0 at the first
    indices: np.ndarray  # int64[D, rank]: the block's index
    starts: np.ndarray  # int64[D, rank]: the block's first element
    bytes: np.ndarray  # int64[D]: bytes of the part inside the array
    outside: np.ndarray  # bool[D]: whether the block lies wholly outside


def runs(operand: grid.Operand) -> Runs:
    """Return the runs of an operand over the whole grid."""
    first = np.flatnonzero(operand.changes)
    keys = _keys(operand.indices[first])
    _, example, block = np.unique(keys, return_index=True, return_inverse=True)
    at = first[example]
    starts = operand.starts[at]
    ends, shape = starts + np.array(operand.block_shape, np.int64), np.array(operand.shape, np.int64)
    return Runs(
        lengths=np.diff(np.append(first, len(operand.indices))),
        block=block.reshape(-1),
        since=_since(block.reshape(-1)),
        indices=operand.indices[at],
        starts=starts,
        bytes=operand.block_bytes[at],
        outside=((ends <= 0) | (starts >= shape)).any(axis=1),
    )


def _keys(rows: np.ndarray) -> np.ndarray:
    """Number the rows: equal rows get equal numbers, and the numbers sort as the rows do."""
    keys = np.zeros(len(rows), np.int64)
    for column in rows.T:
        values, column = np.unique(column, return_inverse=True)
        keys = keys * len(values) + column.reshape(-1)
        keys = np.unique(keys, return_inverse=True)[1].reshape(-1)  # keeps the numbers small
    return keys


def _since(block: np.ndarray) -> np.ndarray:
    order = np.argsort(block, kind="stable")
    since = np.zeros(len(block), np.int64)
    again = block[order[1:]] == block[order[:-1]]
    since[order[1:][again]] = (order[1:] - order[:-1])[again]
    return since


def kernel_frames(shown: Shown) -> dict:
    """Return one grid for the browser: words, numbers, and NumPy arrays that ``packed`` turns into bytes.

    Raises grid.UnreadableCall if there is no step, or more than ``MOST_STEPS``.
    """
    call = shown.pipeline
    if not call.steps:
        raise grid.UnreadableCall(
            f"{call.name} has the grid {call.grid}: it has no steps, so there is nothing to play."
        )
    if call.steps > MOST_STEPS:
        raise grid.UnreadableCall(
            f"the grid {call.grid} of {call.name} has {call.steps:,} steps; the player takes up to {MOST_STEPS:,}. "
            "Try larger blocks, or a smaller array with the same blocks."
        )
    by_hand, problem = _by_hand(call)
    operands = [_operand(o, by_hand) for o in call.operands]
    return {
        "title": shown.title,
        "grid": list(call.grid),
        "steps": call.steps,
        "operands": operands,
        "accumulators": grid_accumulator.frames(call),
        "lanes": [_lane(n, o) for n, o in enumerate(call.operands) if o.pipelined] + by_hand,
        "notes": [*shown.notes, *_notes(call), *([problem] if problem else [])],
        "uncounted": bool(problem),
    }


def _operand(operand: grid.Operand, by_hand: list[dict]) -> dict:
    found = runs(operand)
    element = operand.element or (False,) * len(operand.shape)
    return {
        "name": operand.name,
        "role": operand.role,
        "shape": list(operand.shape),
        "dtype": str(operand.dtype),
        "block": list(operand.block_shape),
        "element": list(element),
        "space": operand.memory_space,
        "buffers": operand.buffers,
        "byHand": any(lane["name"] == operand.name for lane in by_hand),
        "aliases": operand.aliases or "",
        "lengths": found.lengths.astype(np.uint32),
        "visits": found.block.astype(np.uint32),
        "since": found.since.astype(np.uint32),
        "indices": found.indices.astype(np.int32),
        "starts": found.starts.astype(np.int32),
        "bytes": found.bytes.astype(np.float64),  # exact up to 2**53
        "outside": found.outside.astype(np.uint8),
    }


def _lane(number: int, operand: grid.Operand) -> dict:
    """Describe the copies of the pipeline for an operand: in at the first step of each run, or out after the last."""
    return {
        "operand": number,
        "name": operand.name,
        "direction": "out" if operand.role == "output" else "in",
        "core": operand.memory_space.upper(),
        "byHand": False,
    }


def _by_hand(call: grid.Pipeline) -> tuple[list[dict], str]:
    """Return the copies that the kernel's body starts, a lane per operand and direction, and why some do not count."""
    if not isinstance(call, grid.Call) or not grid.has_copies_by_hand(call):
        return [], ""
    try:
        followed = grid.body(call)
    except grid.UnreadableCall as error:
        return [], f"The copies that {call.name} makes by hand are not counted: {error}"
    if followed.hidden_copies:
        return [], f"The copies that {call.name} makes by hand are not counted: {followed.hidden_copies}."
    ends = {}
    for copy in followed.copies:
        for name, space, direction in ((copy.source, copy.source_space, "in"), (copy.target, copy.target_space, "out")):
            if space == "hbm":
                ends.setdefault((name, direction), []).append(copy)
    names = [o.name for o in call.operands]
    return [
        _lane_by_hand(names.index(name) if name in names else -1, name, direction, copies)
        for (name, direction), copies in ends.items()
    ], ""


def _lane_by_hand(number: int, name: str, direction: str, copies: list) -> dict:
    steps = np.concatenate([copy.steps for copy in copies])
    others = {copy.target_space if direction == "in" else copy.source_space for copy in copies}
    order = np.argsort(steps, kind="stable")
    sizes = np.concatenate([copy.bytes for copy in copies])
    lane = {
        "operand": number,
        "name": name,
        "direction": direction,
        "core": " or ".join(sorted(others)).upper(),
        "byHand": True,
        "gaps": np.diff(steps[order], prepend=0).astype(np.uint32),
        "sizes": sizes[order].astype(np.float64),
    }
    if len(steps) <= MOST_WINDOWS and all(copy.starts is not None for copy in copies):
        starts = np.concatenate([copy.starts for copy in copies])[order]
        shapes = np.concatenate([np.tile(np.array(c.shape, np.int64), (len(c.steps), 1)) for c in copies])[order]
        lane |= {"starts": starts.astype(np.int32), "shapes": shapes.astype(np.int32)}
    return lane


def _notes(call: grid.Pipeline) -> Iterator[str]:
    for output in call.outputs:
        if output.pipelined and not any(output.element) and (missing := _unvisited(output)):
            yield (
                f"{output.name}: {missing:,} of its {math.prod(output.blocks):,} blocks are never visited, so nothing "
                "is written there."
            )
    if not isinstance(call, grid.Call):
        return
    for scratch in call.scratch:
        if scratch.memory_space in ("vmem", "smem"):
            size = int(np.prod(scratch.shape, dtype=np.int64)) * grid.bits(scratch.dtype) // 8
            yield (
                f"Also in {scratch.memory_space.upper()}: {scratch.name}, {scratch.dtype}{list(scratch.shape)}, "
                f"{text.size(size)} of scratch that is kept from step to step."
            )
    yield from cost.padding_of_call(call)
    if call.times is None:
        yield "How often the function runs this kernel depends on data; the counts here are those of one run."
    elif call.times > 1:
        yield f"The function runs this kernel {call.times:,} times; the counts here are those of one run."


def _unvisited(output: grid.Operand) -> int:
    """Count the blocks of an output that no step visits."""
    visited = output.indices[output.changes]
    inside = ((visited >= 0) & (visited < np.array(output.blocks, np.int64))).all(axis=1)
    return math.prod(output.blocks) - len(np.unique(_keys(visited[inside])))


def grids(walk: grid.Walk) -> tuple[list[Shown], list[str]]:
    """Return the grids of a function in the order it runs them, and why others cannot be read."""
    found, unreadable = [], []
    for call in walk.calls:
        try:
            found += _grids_of(call, walk)
        except grid.UnreadableCall as error:
            unreadable.append(str(error))
    return found, unreadable


def _grids_of(call: grid.Call, walk: grid.Walk) -> list[Shown]:
    """Return the pipelines that a kernel's body builds, and the grid of the call if it moves more than they do."""
    if call.steps != 1 or not grid.has_copies_by_hand(call):
        return [Shown(call.name, call)]
    try:
        inside = grid.inner_pipelines(call)
    except grid.UnreadableCall as error:
        return [Shown(call.name, call, (f"Its loop is shown as one step: {error}",))]
    if not inside:
        return [Shown(call.name, call)]
    several, notes = len(inside) > 1, tuple(_notes(call))
    found = [
        Shown(f"{call.name}, pipeline {n} of {len(inside)}" if several else f"{call.name}, its pipeline", p, notes)
        for n, p in enumerate(inside, 1)
    ]
    all_bytes = sum(row.bytes for row in cost.traffic(grid.Walk(calls=(call,), jaxpr=walk.jaxpr)))
    rest = all_bytes // (call.times or 1) - sum(pipeline_bytes(pipeline) for pipeline in inside)
    if not rest:
        return found
    outside = f"Outside its pipeline{'s' * several}, the kernel moves {rest:,} more bytes"
    said = f"{outside}: choose the whole kernel to see them."
    return [shown._replace(notes=(*notes, said)) for shown in found] + [Shown(f"{call.name}, whole kernel", call)]


def pipeline_bytes(pipeline: grid.Pipeline) -> int:
    """Return the HBM traffic of a grid's automatic copies, in bytes."""
    return sum(int(o.block_bytes[o.fetched | o.written].sum()) for o in pipeline.operands)


def packed(words: object) -> tuple[object, bytes]:
    """Replace every NumPy array in ``words`` by its place in a byte string, and return both; the bytes are compressed.

    Arrays are stored by column, integers as differences from row to row: grids are regular, so these compress well.
    """
    chunks, at = [], 0

    def put(value):
        nonlocal at
        if isinstance(value, dict):
            return {key: put(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [put(inner) for inner in value]
        if not isinstance(value, np.ndarray):
            return value
        columns = value.shape[1] if value.ndim == 2 else 1
        place = {"type": value.dtype.name, "at": at, "count": value.size, "columns": columns}
        if value.dtype.kind in "iu":
            value = np.diff(value, axis=0, prepend=np.zeros_like(value[:1]))  # wraps around, as the browser's sums do
        raw = np.ascontiguousarray(value.T).tobytes()
        raw += b"\0" * (-len(raw) % 8)  # the browser needs aligned arrays
        chunks.append(raw)
        at += len(raw)
        return place

    words = put(words)
    return words, zlib.compress(b"".join(chunks), 6)
