"""The number of buffers in VMEM that libtpu reserves for a block of a pallas_call.

There are two, so that one is filled while the other is in use. There is one if nothing needs to be prefetched: in a
grid of one step, or if the index map uses no grid axis with several steps. ``pl.Buffered(2)`` does not change that.
libtpu 0.0.48 decides from the index map, not from its values: i // 100 gets two buffers even if it is 0 at every step,
but i * 0 folds to a constant and gets one (folding.py). A test asks it. (A call without a grid has no blocks: there
Pallas refuses a BlockSpec that takes a part of an array.)
"""

import math

from course_lib.grid.folding import folded, holds

PIPELINED = 2


def buffers(block, grid: tuple[int, ...]) -> int:
    """Return the buffers for a block mapping of a pallas_call: 1, 2, or what its ``pipeline_mode`` asks for."""
    if math.prod(grid) == 1 or not _moves(block.index_map_jaxpr, grid):
        return 1
    return PIPELINED if block.pipeline_mode is None else block.pipeline_mode.buffer_count


def _moves(index_map, grid: tuple[int, ...]) -> bool:
    """Whether an index map uses a grid axis that has several steps."""
    axes = [0 if steps == 1 else ("axis", n) for n, steps in enumerate(grid)]
    jaxpr = index_map.jaxpr
    prefetched = [("prefetched", n) for n in range(len(jaxpr.invars) - len(grid))]
    return any(holds(index, axis) for index in folded(jaxpr, [*axes, *prefetched]) for axis in axes if axis)
