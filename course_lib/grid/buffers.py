"""How many copies of a block lie in VMEM: the windows that libtpu sets aside for a pallas_call.

Two, so that one is filled while the other is worked on. One where there is nothing to fill beside it: in a grid of one
step, and where the index map asks for no axis of the grid that has several steps. ``pl.Buffered(2)`` changes nothing
there. So libtpu 0.0.48 decides, from the map and not from its values: a map that computes the same index at every step,
i // 100 say, has two, unless it folds into a number, as i * 0 does (folding.py). A test asks it.
(A call without a grid has no blocks: Pallas refuses a BlockSpec there that cuts one out of an array.)
"""

import math

from course_lib.grid.folding import folded, holds

PIPELINED = 2


def buffers(block, grid: tuple[int, ...]) -> int:
    """Of a block mapping of a pallas_call: 1, 2, or what its ``pipeline_mode`` asks for."""
    if math.prod(grid) == 1 or not _moves(block.index_map_jaxpr, grid):
        return 1
    return PIPELINED if block.pipeline_mode is None else block.pipeline_mode.buffer_count


def _moves(index_map, grid: tuple[int, ...]) -> bool:
    """Whether an index map computes with an axis of the grid that has several steps."""
    axes = [0 if steps == 1 else ("axis", n) for n, steps in enumerate(grid)]
    jaxpr = index_map.jaxpr
    prefetched = [("prefetched", n) for n in range(len(jaxpr.invars) - len(grid))]
    return any(holds(index, axis) for index in folded(jaxpr, [*axes, *prefetched]) for axis in axes if axis)
