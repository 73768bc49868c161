"""The bytes that a function moves outside its kernels."""

from course_lib import cost, grid
from course_lib.grid import jaxprs

# Operations that move no data outside the kernels: names and reshapes.
_FREE = {"reshape", "squeeze", "expand_dims", "stop_gradient", "name", "device_put", "optimization_barrier"}


def around(walk: grid.Walk) -> dict[str, int]:
    """Return {operation: bytes} for the operations outside the kernels: each reads its inputs and writes its outputs.

    XLA may fuse some of them and move less. Reshapes are free.
    """
    moved: dict[str, int] = {}
    _add_around(walk.jaxpr.jaxpr, moved)
    return moved


def _add_around(jaxpr, moved: dict[str, int]) -> None:
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in grid.KERNELS or name in _FREE:
            continue
        if inner := jaxprs.inside(eqn):
            for each in inner:
                _add_around(each, moved)
            continue
        arrays = [v.aval for v in (*eqn.invars, *eqn.outvars) if getattr(v.aval, "shape", ())]
        moved[name] = moved.get(name, 0) + cost.stored_bytes(*arrays)
