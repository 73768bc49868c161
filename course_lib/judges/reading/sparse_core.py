"""Kernels for the SparseCores of a chip, which JAX's TPU simulator does not have."""

from course_lib import grid

WHY = "This kernel runs on SparseCores, but JAX's TPU simulator has only TensorCores: it would run one core of several."


def is_asked_for(jaxpr) -> bool:
    """Whether a kernel of a traced function asks for a mesh of SparseCores."""
    return any(
        "Subcore" in type(mesh).__name__
        for eqn in grid.pallas_calls(jaxpr.jaxpr)
        for mesh in (*eqn.params.get("meshes", ()), eqn.params.get("mesh"))
    )
