"""HBM traffic of a function's kernels, in bytes.

Traffic is counted as it moves. A block that stays in VMEM is not copied again. Arrays lie in HBM in tiles, and a copy
moves whole ones (``grid.tiles``): those of a block that exist, with the padding of the last one, and none beyond the
array. A copy that the kernel makes by hand is counted where it starts.
"""

import dataclasses

from course_lib import grid


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traffic:
    """HBM traffic of one operand: ``copies`` copies, ``bytes`` in all, "in" (out of HBM) or "out" (into HBM).

    ``payload`` is the part of these bytes that the elements themselves take; the rest is tile padding.
    """

    call: str
    name: str
    direction: str
    copies: int
    bytes: int
    payload: int


def traffic(walk: grid.Walk) -> list[Traffic]:
    """Return one row per operand and direction; a kernel in a loop of known length counts as often as it runs.

    The pipeline's copies come first, in the order in which the kernel receives its refs, then the copies that the
    kernel makes by hand. Raises grid.UnreadableCall if a copy made by hand depends on an array's values.
    """
    return [row for call in walk.calls for row in _automatic(call) + _by_hand(call)]


def hbm_bytes(walk: grid.Walk) -> int:
    """Return the bytes moved into and out of HBM by all kernels of the function, in whole tiles.

    Raises grid.UnreadableCall if that depends on an array's values: a kernel's copies, or how often it runs.
    """
    return sum(row.bytes for row in _countable(walk))


def payload_bytes(walk: grid.Walk) -> int:
    """Return the same bytes without tile padding: those of the elements themselves. Raises as ``hbm_bytes`` does."""
    return sum(row.payload for row in _countable(walk))


def stored_bytes(*arrays) -> int:
    """Return the bytes that arrays or ShapeDtypeStructs take in HBM, in whole tiles.

    This is the least traffic if each array moves once.
    """
    return sum(grid.stored_bytes(array.shape, array.dtype) for array in arrays)


def _countable(walk: grid.Walk) -> list[Traffic]:
    if (call := next((call for call in walk.calls if call.times is None), None)) is not None:
        raise grid.UnreadableCall(
            f"how often {call.name} runs depends on data: its bytes cannot be counted.", reason=grid.Reason.ARRAY_VALUES
        )
    return traffic(walk)


def _automatic(call: grid.Call) -> list[Traffic]:
    times = call.times or 1
    return [
        Traffic(
            call=call.name,
            name=operand.name,
            direction="out" if operand.role == "output" else "in",
            copies=int(moved.sum()) * times,
            bytes=int(operand.block_bytes[moved].sum()) * times,
            payload=int(operand.block_payload[moved].sum()) * times,
        )
        for operand in call.operands
        if operand.pipelined
        for moved in (operand.fetched | operand.written,)
    ]


def _by_hand(call: grid.Call) -> list[Traffic]:
    if not grid.has_copies_by_hand(call):
        return []
    followed, moved = grid.body(call), {}
    if followed.hidden_copies:
        raise grid.UnreadableCall(
            f"the copies of {call.name} cannot be counted: {followed.hidden_copies}.", reason=grid.Reason.ARRAY_VALUES
        )
    for copy in followed.copies:
        ends = [(copy.source, "in")] * (copy.source_space == "hbm") + [(copy.target, "out")] * (
            copy.target_space == "hbm"
        )
        for end in ends:
            moved.setdefault(end, []).append(copy)
    return [_row(call, name, direction, copies) for (name, direction), copies in moved.items()]


def _row(call: grid.Call, name: str, direction: str, copies: list[grid.Copy]) -> Traffic:
    times = call.times or 1
    return Traffic(
        call=call.name,
        name=name,
        direction=direction,
        copies=sum(len(copy.steps) for copy in copies) * times,
        bytes=int(sum(copy.bytes.sum() for copy in copies)) * times,
        payload=sum(len(copy.steps) * copy.payload for copy in copies) * times,
    )
