"""The table of failures, in the order in which its rows are tried: the first row that fits is used.

The more specific row comes first, within a subject and between subjects. These subjects depend on the order:
  ours       its messages are complete, and may contain anything
  gradients  JAX's derivative of a kernel may fail like any other code
  grids, index_maps, refs   before traced_values: "known only when it runs" is true of their failures too
  gpu        before memory, simulator and operations, whose TPU rows would match its failures
  sparse_cores   before memory and operations, whose rows are for TensorCores
  memory     before calling: a copy without its semaphore is also a call that lacks an argument
  layouts, copies   before operations, whose last row matches anything the compiler refused
  keras      before names: an argument that a layer's __init__ does not take is also an unknown keyword
  operations last: its last row matches anything the compiler refused
"""

from course_lib.errors.rows import (
    blocks,
    calling,
    copies,
    dtypes,
    gpu,
    gradients,
    grids,
    index_maps,
    keras,
    layouts,
    loops,
    many_chips,
    memory,
    names,
    operations,
    ours,
    pipelines,
    refs,
    simulator,
    sparse_cores,
    starts,
    targets,
    traced_values,
)

SUBJECTS = (
    ours,
    gpu,
    sparse_cores,
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
    many_chips,
    layouts,
    copies,
    operations,
)
ROWS = tuple(row for subject in SUBJECTS for row in subject.ROWS)
