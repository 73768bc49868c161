"""Visits of output blocks: which buffer each one uses, and what it finds there.

A visit is a run of consecutive steps with the same output block. An output block is never copied in, and its buffers
alternate: with two buffers, visit v works in buffer v mod 2 and finds what visit v - 2 left there. So an accumulator
that the grid returns to survives only if visit v - 2 was to the same block, which is luck; otherwise it is lost. (XLA
may keep the whole output in VMEM between two operations. Its blocks then lie side by side and all of them survive,
again by luck.)

Source: the loop that libtpu 0.0.48.1 emits for a pallas_call counts the changes of an output's block index and takes
that count modulo 2; emit_pipeline in JAX 0.11.2 does the same. tests/test_grid_visits.py runs the latter.
"""

from typing import NamedTuple

import numpy as np

from course_lib.grid.call import Operand


class Visit(NamedTuple):
    """Consecutive steps with one output block. ``finds``: the visit whose values are left in its buffer, or None."""

    number: int
    block: tuple[int, ...]
    first: int  # step
    last: int  # step
    buffer: int
    finds: int | None  # the number of a visit


class Return(NamedTuple):
    """A visit of an output block that was visited before: what its buffer contains, and what it should contain."""

    visit: Visit
    before: Visit  # the last visit of the same block
    found: Visit  # the last visit that worked in this buffer

    @property
    def kept(self) -> bool:
        """Whether the block finds what it left there. This is luck, since nothing guarantees it."""
        return self.found.block == self.visit.block


def visits(output: Operand) -> list[Visit]:
    """Return the visits of an output's blocks, in order."""
    firsts = np.flatnonzero(output.changes)
    lasts = np.append(firsts[1:], len(output.indices)) - 1
    blocks = map(tuple, output.indices[firsts].tolist())
    return [
        Visit(n, block, first, last, n % output.buffers, n - output.buffers if n >= output.buffers else None)
        for n, (block, first, last) in enumerate(zip(blocks, firsts.tolist(), lasts.tolist(), strict=True))
    ]


def returns(output: Operand) -> list[Return]:
    """Return the visits of blocks that were left before, in order; [] if every block is visited once."""
    in_order, latest, found = visits(output), {}, []
    for visit in in_order:
        if visit.block in latest:
            found.append(Return(visit, latest[visit.block], in_order[visit.number - output.buffers]))
        latest[visit.block] = visit
    return found
