"""What a grid costs: HBM traffic, counted from the list that ``grid.walk`` makes.

HBM bytes are exactly what the automatic pipeline moves: a block that stays put is not copied again, a ragged
last block counts only the part inside the array.
"""

import dataclasses

import numpy as np

from course_lib import grid


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traffic:
    """HBM traffic of one operand: ``copies`` block copies, ``bytes`` in all, "in" (HBM to VMEM) or "out"."""

    call: str
    name: str
    direction: str
    copies: int
    bytes: int


def traffic(walk: grid.Walk) -> list[Traffic]:
    """One row per operand that the pipeline moves, in the order the kernels take them."""
    return [
        Traffic(
            call=call.name,
            name=operand.name,
            direction="in" if operand.role == "input" else "out",
            copies=int(moved.sum()),
            bytes=_bytes(operand, operand.indices[moved]),
        )
        for call in walk.calls
        for operand in call.operands
        if operand.pipelined
        for moved in (operand.fetched | operand.written,)
    ]


def hbm_bytes(walk: grid.Walk) -> int | None:
    """Bytes moved between HBM and VMEM by all kernels of the function; None if a ref is copied by hand."""
    if not all(operand.pipelined for call in walk.calls for operand in call.operands):
        return None
    return sum(row.bytes for row in traffic(walk))


def _bytes(operand: grid.Operand, indices: np.ndarray) -> int:
    blocks, counts = np.unique(indices, axis=0, return_counts=True)
    return sum(operand.bytes_of(tuple(block)) * int(n) for block, n in zip(blocks.tolist(), counts, strict=True))
