"""In which of its buffers a visit of an output block works, and what it finds there.

A visit is a run of consecutive steps with the same output block. An output block is never copied in, and its buffers
take turns: with two of them visit v works in buffer v mod 2, and finds what visit v - 2 left there. So a sum that is
come back to is kept where that was a visit of the same block, by luck, and else lost. (Where XLA keeps the whole output
in VMEM, as it may between two operations, blocks lie side by side, and each is kept, by luck too.)

Source: the loop that libtpu 0.0.48.1 emits for a pallas_call counts the changes of an output's block index and takes
that number modulo 2; emit_pipeline in JAX 0.11.2 does the same. tests/test_grid_visits.py runs the latter.
"""

from typing import NamedTuple

import numpy as np

from course_lib.grid.call import Operand


class Visit(NamedTuple):
    """Consecutive steps with one output block. ``finds``: whose numbers lie in its buffer; None: nobody's."""

    number: int
    block: tuple[int, ...]
    first: int  # step
    last: int  # step
    buffer: int
    finds: int | None  # the number of a visit


class Return(NamedTuple):
    """A visit of an output block that was visited before: what lies in its buffer then, and what should."""

    visit: Visit
    before: Visit  # of the same block, the last one
    found: Visit  # the one that worked in this buffer last

    @property
    def kept(self) -> bool:
        """Whether the block finds what it left: by luck, for nobody promises it."""
        return self.found.block == self.visit.block


def visits(output: Operand) -> list[Visit]:
    """The visits of an output's blocks, in order."""
    firsts = np.flatnonzero(output.changes)
    lasts = np.append(firsts[1:], len(output.indices)) - 1
    blocks = map(tuple, output.indices[firsts].tolist())
    return [
        Visit(n, block, first, last, n % output.buffers, n - output.buffers if n >= output.buffers else None)
        for n, (block, first, last) in enumerate(zip(blocks, firsts.tolist(), lasts.tolist(), strict=True))
    ]


def returns(output: Operand) -> list[Return]:
    """The visits of blocks that were left before, in order; [] where every block is visited once."""
    in_order, latest, found = visits(output), {}, []
    for visit in in_order:
        if visit.block in latest:
            found.append(Return(visit, latest[visit.block], in_order[visit.number - output.buffers]))
        latest[visit.block] = visit
    return found
