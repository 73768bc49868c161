"""A reader of the kernels in a traced function, which lists what every grid step touches.

``walk(f, x, y).calls[0]`` has the grid and, for each operand, the block index at every step, the steps that copy a
block from HBM to VMEM, and the steps that write one back. ``body(call)`` says how often each operation of the kernel's
body runs, and what the body copies by hand; ``memory_uses(call)`` lists every place where it touches memory. Traffic,
pictures and verdicts are views of these lists.

The TPU visits the grid one step after another, the last axis fastest. A block is copied in only when its index differs
from the step before; an output block is written back when the next step's index differs. ``returns`` lists the output
blocks that are visited again later, and what their buffers contain then.
"""

from course_lib.grid.accumulators import Accumulator, accumulators
from course_lib.grid.body import Body, Broken, Copy, Use
from course_lib.grid.call import Call, Operand, Pipeline, Scratch, Walk
from course_lib.grid.cores import Cores, cores
from course_lib.grid.following.follow import (
    body,
    broken_promise,
    has_copies_by_hand,
    memory_uses,
    read_below_zero,
    scoped_scratch,
)
from course_lib.grid.following.refs import space_of
from course_lib.grid.jaxprs import KERNELS, equations, pallas_calls, runs_on_sparse_cores
from course_lib.grid.origin import made_by, unread
from course_lib.grid.pipelines import inner_pipelines
from course_lib.grid.tiles import bits, moved_bytes, registers, rows_in_a_word, stored_bytes, tile
from course_lib.grid.trace import run, trace, trace_with_result
from course_lib.grid.unreadable import Reason, UnreadableCall
from course_lib.grid.visits import Return, returns
from course_lib.grid.walk import walk, walk_traced

__all__ = [
    "KERNELS",
    "Accumulator",
    "Body",
    "Broken",
    "Call",
    "Copy",
    "Cores",
    "Operand",
    "Pipeline",
    "Reason",
    "Return",
    "Scratch",
    "UnreadableCall",
    "Use",
    "Walk",
    "accumulators",
    "bits",
    "body",
    "broken_promise",
    "cores",
    "equations",
    "has_copies_by_hand",
    "inner_pipelines",
    "made_by",
    "memory_uses",
    "moved_bytes",
    "pallas_calls",
    "registers",
    "returns",
    "read_below_zero",
    "rows_in_a_word",
    "run",
    "runs_on_sparse_cores",
    "scoped_scratch",
    "space_of",
    "stored_bytes",
    "tile",
    "trace",
    "trace_with_result",
    "unread",
    "walk",
    "walk_traced",
]
