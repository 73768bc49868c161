"""The operations around the kernels of a function: shapes and layout, or arithmetic too.

The judges accept both. Exercises want the arithmetic inside the kernel; otherwise the answer could do without one.
"""

from course_lib import grid
from course_lib.grid import jaxprs

# Operations on shapes and layout, which may stand around a pallas_call. Every other one is arithmetic.
_MOVES_DATA = {
    "bitcast_convert_type", "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "device_put",
    "dynamic_slice", "dynamic_update_slice", "empty", "expand_dims", "gather", "iota", "name", "optimization_barrier",
    "pad", "reshape", "rev", "scatter", "slice", "split", "squeeze", "stack", "stop_gradient", "tile", "transpose",
    "unstack",
}  # fmt: skip


def arithmetic_around(walk: grid.Walk) -> list[str]:
    """Return the operations around the kernels that compute results, and not those that only move data."""
    jaxpr = walk.jaxpr.jaxpr
    return sorted(_arithmetic(jaxpr, [True] * len(jaxpr.outvars))[0])


def _arithmetic(jaxpr, wanted: list[bool], in_loop: bool = False) -> tuple[set[str], list[bool]]:
    """Return (the operations that compute the wanted outputs, which inputs they use as values)."""
    found, values = set(), {v for v, want in zip(jaxpr.outvars, wanted, strict=True) if want and jaxprs.is_variable(v)}
    for eqn in reversed(jaxpr.eqns):
        name, wants = eqn.primitive.name, [v in values for v in eqn.outvars]
        if not any(wants):
            continue
        takes = [n not in _places(eqn) for n in range(len(eqn.invars))]
        if name not in grid.KERNELS:
            inner = None if name == "scan" else jaxprs.called(eqn)  # each iteration may use what the last one left
            if inner is not None:
                inside, takes = _arithmetic(inner, wants, in_loop)
                found |= inside
            elif others := jaxprs.inside(eqn):
                found |= set().union(*(_arithmetic(o, [True] * len(o.outvars), in_loop=True)[0] for o in others))
            elif name not in _MOVES_DATA and not (in_loop and _counts(eqn)):
                found.add(name)
        values |= {v for v, take in zip(eqn.invars, takes, strict=True) if take and jaxprs.is_variable(v)}
    return found, [v in values for v in jaxpr.invars]


def _counts(eqn) -> bool:
    """Whether an operation makes one integer or bool, as a loop's counter does."""
    return all(v.aval.shape == () and v.aval.dtype.kind in "iub" for v in eqn.outvars)


def _places(eqn) -> range | list[int]:
    """Return the inputs of an operation that are positions, not values: indices, and a kernel's integers in SMEM."""
    first = {"gather": 1, "dynamic_slice": 1, "dynamic_update_slice": 2, "scatter": 1}.get(eqn.primitive.name)
    if first is not None:
        return range(first, first + 1 if eqn.primitive.name == "scatter" else len(eqn.invars))
    if eqn.primitive.name == "cond":  # the first chooses the branch
        return range(1)
    if eqn.primitive.name == "pallas_call":
        first = eqn.params["grid_mapping"].num_dynamic_grid_bounds
        refs = eqn.params["jaxpr"].invars[: len(eqn.invars) - first]
        steers = [grid.space_of(v.aval) == "smem" and v.aval.dtype.kind in "iu" for v in refs]
        return [first + n for n, steer in enumerate(steers) if steer]
    return range(0)
