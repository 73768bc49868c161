"""Where most of what a kernel moves is the padding of tiles: a column of numbers, say, each in a row of its own."""

from course_lib import grid
from course_lib.cost.traffic import Traffic, traffic

MUCH = 2  # times the bytes of the numbers themselves
AGAINST_PADDING = (
    "give the array a last axis of 128 or more, or put the narrow axis before the last: rows are padded to 128."
)


def padding(walk: grid.Walk) -> tuple[str, ...]:
    """A sentence for each operand whose copies move at least twice the bytes of its numbers; () where none does.

    Nothing is said of a kernel whose copies cannot be counted.
    """
    return tuple(dict.fromkeys(said for call in walk.calls for said in _of_call(call, walk)))


def padding_of(row: Traffic, operand: grid.Operand) -> str:
    """The sentence for one operand's traffic; "" where less than half of it is padding."""
    if not row.bytes >= MUCH * row.payload > 0:
        return ""
    size, tile = operand.dtype.itemsize, grid.tile(operand.shape, operand.dtype)[-2:]
    one, stored = size * operand.shape[-1], size * -(-operand.shape[-1] // tile[-1]) * tile[-1]
    each = f": a row of {one:,} bytes moves {stored:,}" if len(tile) == 2 and stored >= MUCH * one else ""
    return (
        f"{row.name}, {operand.dtype}[{','.join(map(str, operand.shape))}], lies in HBM in tiles of "
        f"{' x '.join(map(str, tile))}{each}. Its copies move {row.bytes / row.payload:.3g} times the bytes of its "
        "numbers."
    )


def _of_call(call: grid.Call, walk: grid.Walk) -> list[str]:
    try:
        rows = traffic(grid.Walk(calls=(call,), jaxpr=walk.jaxpr))
    except grid.UnreadableCall:
        return []
    operands = {operand.name: operand for operand in call.operands}
    return [said for row in rows if row.name in operands and (said := padding_of(row, operands[row.name]))]
