"""Warnings about arrays whose traffic is mostly tile padding: a column vector, for example, takes a row per element."""

from collections.abc import Collection

from course_lib import grid
from course_lib.cost.traffic import Traffic, traffic

MUCH = 2  # times the bytes of the elements themselves
AGAINST_PADDING = (
    "give the array a last axis of 128 or more, or put the narrow axis before the last: rows are padded to 128."
)


def padding(walk: grid.Walk) -> tuple[str, ...]:
    """Return a sentence for each array whose copies move at least twice the bytes of its elements; () if none do.

    Kernels whose copies cannot be counted are left out.
    """
    return tuple(dict.fromkeys(said for call in walk.calls for said in padding_of_call(call)))


def padding_of_call(call: grid.Call, without: Collection[str] = ()) -> list[str]:
    """Return those sentences for one kernel, except for the operands named in ``without``."""
    try:
        rows = traffic(grid.Walk(calls=(call,), jaxpr=None))
    except grid.UnreadableCall:
        return []
    operands = {operand.name: operand for operand in call.operands}
    alike: dict[tuple, list[Traffic]] = {}
    for row in rows:
        if row.name in operands and row.name not in without and row.bytes >= MUCH * row.payload > 0:
            operand = operands[row.name]
            alike.setdefault((operand.shape, operand.dtype, row.bytes / row.payload), []).append(row)
    return [_sentence(found, operands[found[0].name]) for found in alike.values()]


def padding_of(row: Traffic, operand: grid.Operand) -> str:
    """Return the sentence for the traffic of one operand; "" if less than half of it is padding."""
    return _sentence([row], operand) if row.bytes >= MUCH * row.payload > 0 else ""


def _sentence(rows: list[Traffic], operand: grid.Operand) -> str:
    """Write one sentence about operands of the same shape and dtype."""
    names = list(dict.fromkeys(row.name for row in rows))
    lie, their = ("lies", "Its") if len(names) == 1 else ("lie", "Their")
    size, tile = grid.bits(operand.dtype) / 8, grid.tile(operand.shape, operand.dtype)[-2:]
    one, stored = (int(size * n) for n in (operand.shape[-1], -(-operand.shape[-1] // tile[-1]) * tile[-1]))
    each = f": a row of {one:,} bytes moves {stored:,}" if len(tile) == 2 and stored >= MUCH * one else ""
    array, ratio = f"{operand.dtype}[{','.join(map(str, operand.shape))}]", rows[0].bytes / rows[0].payload
    return (
        f"{' and '.join(names)} ({array}) {lie} in HBM in tiles of {' x '.join(map(str, tile))}{each}. "
        f"{their} copies move {ratio:.3g} times the bytes of the elements."
    )
