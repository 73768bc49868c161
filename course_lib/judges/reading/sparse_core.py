"""Kernels for the SparseCores of a chip, which JAX's TPU simulator does not have."""

from course_lib import grid

WHY = (
    "This kernel runs on SparseCores, but JAX's TPU simulator has only TensorCores: it would run one core of several. "
    "Ask judges.judge_sparse_core."
)


def is_asked_for(jaxpr) -> bool:
    """Whether a kernel of a traced function asks for a mesh of SparseCores."""
    return any(map(grid.runs_on_sparse_cores, grid.pallas_calls(jaxpr.jaxpr)))
