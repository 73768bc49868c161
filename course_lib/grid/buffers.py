"""How many copies of a block lie in VMEM: the windows that libtpu sets aside for a pallas_call.

Two, so that one is filled while the other is worked on. One where there is nothing to fill beside it: in a grid of one
step, and where the index map asks for no axis of the grid that has several steps. So libtpu 0.0.48 decides, from the
map and not from its values: a map that computes the same index at every step, i // 100 say, has two. A test asks it.
(A call without a grid has no blocks: Pallas refuses a BlockSpec there that cuts one out of an array.)
"""

import math

from course_lib.grid.jaxprs import is_variable

PIPELINED = 2


def buffers(block, grid: tuple[int, ...]) -> int:
    """Of a block mapping of a pallas_call: 1, 2, or what its ``pipeline_mode`` asks for."""
    if math.prod(grid) == 1 or not _moves(block.index_map_jaxpr, grid):
        return 1
    return PIPELINED if block.pipeline_mode is None else block.pipeline_mode.buffer_count


def _moves(index_map, grid: tuple[int, ...]) -> bool:
    """Whether an index map computes with an axis of the grid that has several steps."""
    asked = {v for v, steps in zip(index_map.invars, grid, strict=False) if steps != 1}
    for eqn in index_map.eqns:
        if any(is_variable(v) and v in asked for v in eqn.invars):
            asked.update(eqn.outvars)
    return any(is_variable(v) and v in asked for v in index_map.outvars)
