"""Read the kernels out of a traced function and list what every grid step touches.

``walk(f, x, y).calls[0]`` has the grid and, for each operand, the block index at every step, which steps copy
a block from HBM to VMEM, and which write one back. ``follow`` goes through the kernel's body: how often each
operation runs, and what the kernel copies by hand. Traffic, pictures and verdicts are views of these lists.

The TPU visits the grid one step after another, the last axis fastest. A block is copied in only when its index
differs from the step before; an output block is written back when the next step's index differs.
"""

from course_lib.grid.body import copies_by_hand, follow, scoped, uses
from course_lib.grid.call import Call, Operand, Pipeline, Scratch, UnreadableCall, Walk
from course_lib.grid.followed import Copy, Followed, Use
from course_lib.grid.pipelines import pipelines
from course_lib.grid.read import read, walk
from course_lib.grid.refs import space_of
from course_lib.grid.trace import (
    KERNELS,
    equations,
    inner_jaxpr,
    pallas_calls,
    run,
    scan_parts,
    sub_jaxprs,
    trace,
    trace_with_result,
)

__all__ = [
    "KERNELS",
    "Call",
    "Copy",
    "Followed",
    "Operand",
    "Pipeline",
    "Scratch",
    "UnreadableCall",
    "Use",
    "Walk",
    "copies_by_hand",
    "equations",
    "follow",
    "inner_jaxpr",
    "pallas_calls",
    "pipelines",
    "read",
    "run",
    "scan_parts",
    "scoped",
    "space_of",
    "sub_jaxprs",
    "trace",
    "trace_with_result",
    "uses",
    "walk",
]
