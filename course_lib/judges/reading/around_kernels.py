"""The operations around the kernels of a function: shapes and layout, or arithmetic too.

The judges accept both. Exercises want the arithmetic inside the kernel; otherwise the answer could do without one.
Arithmetic can hide where data is only moved: ``table[index]`` is any function of ``index`` that the table holds. So a
position may be computed from integers that steer, such as a list of blocks, but not from values.
"""

import jax.extend.core
import jax.numpy as jnp

from course_lib import grid
from course_lib.grid import jaxprs
from course_lib.judges.reading import sources
from course_lib.judges.reading.sources import CONSTANTS, STEERING, VALUES, Source

# Operations on shapes and layout, which may stand around a pallas_call. Every other one is arithmetic.
_MOVES_DATA = {
    "bitcast_convert_type", "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "device_put",
    "dynamic_slice", "dynamic_update_slice", "empty", "expand_dims", "gather", "iota", "name", "optimization_barrier",
    "pad", "reshape", "rev", "scatter", "slice", "split", "squeeze", "stack", "stop_gradient", "tile", "transpose",
    "unstack",
}  # fmt: skip
_DECIDES = {"cond": "the condition of cond", "pallas_call": "an integer in SMEM, or the grid, of a kernel"}


def arithmetic_around(walk: grid.Walk) -> list[str]:
    """Return what ``arithmetic_in`` finds in a function that has been walked."""
    return arithmetic_in(walk.jaxpr)


def arithmetic_in(closed: jax.extend.core.ClosedJaxpr) -> list[str]:
    """Return the operations around the kernels of a traced function that compute results, not those that move data.

    An argument of int32 steers: it may be computed with to say where data lies. All others are values. If every
    argument is of int32, a kernel's integers in SMEM count as values too.
    """
    jaxpr = closed.jaxpr
    arguments = sources.of_arguments(jaxpr.invars)
    steers = any(source.level == VALUES for source in arguments)
    return sorted(_arithmetic(jaxpr, arguments, [True] * len(jaxpr.outvars), steers)[0])


def _arithmetic(
    jaxpr, arguments: list[Source], wanted: list[bool], steers: bool, in_loop: bool = False
) -> tuple[set[str], list[bool]]:
    """Return (the operations that compute the wanted outputs, which inputs they use as values)."""
    known = sources.of_variables(jaxpr, arguments)
    found, values = set(), {v for v, want in zip(jaxpr.outvars, wanted, strict=True) if want and jaxprs.is_variable(v)}
    for eqn in reversed(jaxpr.eqns):
        name, wants = eqn.primitive.name, [v in values for v in eqn.outvars]
        if not any(wants):
            continue
        given, places = sources.given(eqn, known), _places(eqn, steers)
        takes = [n not in places for n in range(len(eqn.invars))]
        if any(given[n].level == VALUES for n in places):
            found.add(f"{_DECIDES.get(name, f'an index of {name}')} that comes from values")
        elif name not in grid.KERNELS:
            inner = None if name == "scan" else jaxprs.called(eqn)  # each iteration may use what the last one left
            if inner is not None and len(inner.outvars) == len(wants):
                inside, takes = _arithmetic(inner, given, wants, steers, in_loop)
                found |= inside
            elif others := sources.entered(eqn, given):
                each = [_arithmetic(other, into, [True] * len(other.outvars), steers, True) for other, into in others]
                found |= set().union(*(inside for inside, _ in each))
            elif not (in_loop and _counts(eqn, given)) and (name not in _MOVES_DATA or _computes(eqn, given, places)):
                found.add(name)
        values |= {v for v, take in zip(eqn.invars, takes, strict=True) if take and jaxprs.is_variable(v)}
    return found, [v in values for v in jaxpr.invars]


def _counts(eqn, given: list[Source]) -> bool:
    """Whether an operation makes one integer or bool, as a loop's counter does, and from no values."""
    one = all(v.aval.shape == () and v.aval.dtype.kind in "iub" for v in eqn.outvars)
    return one and all(source.level < VALUES for source in given)


def _computes(eqn, given: list[Source], places: list[int]) -> bool:
    """Whether an operation that moves data computes all the same: it looks up, rounds, wraps, or takes bits apart."""
    moved = [source for n, source in enumerate(given) if n not in places]
    if any(given[n].level >= STEERING for n in places) and any(source.table for source in moved):
        return True
    if eqn.primitive.name not in ("convert_element_type", "bitcast_convert_type"):
        return False
    old, new = (jnp.dtype(v.aval.dtype) for v in (eqn.invars[0], eqn.outvars[0]))
    if given[0].level == CONSTANTS or old.kind == "b":
        return False
    if eqn.primitive.name == "bitcast_convert_type":
        return old.itemsize != new.itemsize
    if jnp.issubdtype(new, jnp.inexact):
        return new.itemsize == 1 and old.itemsize > 1  # eight bits round to few numbers
    return jnp.issubdtype(old, jnp.inexact) or new.itemsize < old.itemsize or new.kind == "b"


def _places(eqn, steers: bool) -> list[int]:
    """Return the inputs of an operation that are positions, not values.

    They are indices, what decides a condition, the sizes of a grid, and if ``steers`` a kernel's integers in SMEM.
    """
    name, inputs = eqn.primitive.name, range(len(eqn.invars))
    if name in ("gather", "scatter"):
        return [1]
    if name in ("dynamic_slice", "dynamic_update_slice"):
        return list(inputs[1 if name == "dynamic_slice" else 2 :])
    if name == "cond":
        return [0]
    if name == "pallas_call":
        sizes = eqn.params["grid_mapping"].num_dynamic_grid_bounds
        refs = eqn.params["jaxpr"].invars[: len(eqn.invars) - sizes]
        lists = [n for n, v in enumerate(refs) if grid.space_of(v.aval) == "smem" and v.aval.dtype.kind in "iu"]
        return [*range(sizes), *(sizes + n for n in lists if steers)]
    return []
