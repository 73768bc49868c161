"""The table of failures, in the order in which its rows are tried: the first that fits is taken.

Within a subject and between subjects, the row that knows more stands first. Between subjects the order matters here:
ours       its words are whole, and may hold anything
gradients  what JAX makes of a kernel that it differentiates may look like any other failure
grids, index_maps, refs   before traced_values: "known only when it runs" is true of their failures too
gpu        before memory, simulator and operations, whose rows are for the TPU and take such failures for theirs
memory     before calling: a copy without its semaphore is also a call that lacks an argument
keras      before names: what a layer's __init__ does not take is also an unknown keyword
operations last: its last row takes whatever the compiler refused
"""

from course_lib.errors.rows import (
    blocks,
    calling,
    dtypes,
    gpu,
    gradients,
    grids,
    index_maps,
    keras,
    loops,
    memory,
    names,
    operations,
    ours,
    pipelines,
    refs,
    simulator,
    starts,
    targets,
    traced_values,
)

SUBJECTS = (
    ours,
    gpu,
    pipelines,
    gradients,
    blocks,
    grids,
    index_maps,
    simulator,
    memory,
    refs,
    starts,
    calling,
    targets,
    keras,
    traced_values,
    loops,
    dtypes,
    names,
    operations,
)
ROWS = tuple(row for subject in SUBJECTS for row in subject.ROWS)
