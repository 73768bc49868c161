"""Grids of several axes rewritten with a single axis, for a simulator that fails on the former.

If no block changes at some step of a grid with several axes, libtpu's simulator (0.0.48) looks for a copy that nobody
started, and aborts: an index map of ``min(j, 3)`` is enough. With one axis it does not. So the steps are numbered
consecutively, and the index maps and the body compute their coordinates from the number. This costs some scalar
operations at each step: 0 to 2 % in kernels of 1000 cycles a step that can be simulated either way.
"""

import dataclasses
import functools
import math

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.pallas import tpu as pltpu

from course_lib import grid
from course_lib.compiler.simulating import rewrite
from course_lib.grid.jaxprs import map_inside

_STEP = jax.ShapeDtypeStruct((), np.int32)


def flattened(jaxpr: jax.extend.core.ClosedJaxpr) -> jax.extend.core.ClosedJaxpr | None:
    """Rewrite the kernels of a function with one grid axis each; None if that is unnecessary or impossible."""
    grids = [eqn.params.get("grid_mapping") for eqn in grid.pallas_calls(jaxpr)]
    several = [mapping for mapping in grids if mapping and len(mapping.grid) > 1]
    if not several or any(m.num_dynamic_grid_bounds or m.vmapped_dims or m.grid_names for m in several):
        return None
    return rewrite.kernels(jaxpr, lambda _, eqn: _kernel(eqn))


def _kernel(eqn):
    mapping = eqn.params.get("grid_mapping")
    if mapping is None or len(mapping.grid) < 2:
        return eqn
    sizes, spare = mapping.grid, len(mapping.grid) - 1
    args, kwargs = mapping.index_map_tree.unflatten(mapping.index_map_avals)
    avals, tree = jax.tree.flatten((args[spare:], kwargs))
    blocks = (b.replace(index_map_jaxpr=_index_map(b.index_map_jaxpr, sizes)) for b in mapping.block_mappings)
    one = mapping.replace(
        grid=(math.prod(sizes),), index_map_avals=tuple(avals), index_map_tree=tree, block_mappings=tuple(blocks)
    )
    said = eqn.params["compiler_params"] or pltpu.CompilerParams()
    in_order = dataclasses.replace(said, dimension_semantics=(pltpu.ARBITRARY,))
    eqn = map_inside(eqn, lambda body: _body(body, sizes))
    return eqn.replace(params=eqn.params | {"grid_mapping": one, "compiler_params": in_order})


def _index_map(jaxpr, sizes: tuple[int, ...]):
    """Rewrite an index map to take the number of a step instead of its coordinates."""
    coordinates, rest = jaxpr.invars[: len(sizes)], jaxpr.invars[len(sizes) :]
    step = jax.extend.core.Var(coordinates[0].aval)
    first = [_coordinate(sizes, axis).replace(invars=[step], outvars=[found]) for axis, found in enumerate(coordinates)]
    names = jaxpr.debug_info._replace(arg_names=None)
    return jaxpr.replace(invars=[step, *rest], eqns=[*first, *jaxpr.eqns], debug_info=names)


def _body(jaxpr, sizes: tuple[int, ...]):
    """Rewrite a body to ask for the number of the step where it asked for a coordinate."""
    eqns = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "program_id":
            (found,) = eqn.outvars
            step = jax.extend.core.Var(found.aval)
            eqns.append(eqn.replace(outvars=[step], params=eqn.params | {"axis": 0}))
            eqns.append(_coordinate(sizes, eqn.params["axis"]).replace(invars=[step], outvars=[found]))
        elif eqn.primitive.name == "num_programs":
            eqns.append(_number(sizes[eqn.params["axis"]]).replace(outvars=list(eqn.outvars)))
        else:
            eqns.append(map_inside(eqn, lambda inner: _body(inner, sizes)))
    return jaxpr.replace(eqns=eqns)


@functools.cache
def _coordinate(sizes: tuple[int, ...], axis: int):
    """Return an equation that computes a coordinate along an axis from the number of a step."""
    inner = math.prod(sizes[axis + 1 :])

    def coordinate(step):
        found = step if inner == 1 else lax.div(step, np.int32(inner))
        outermost = all(size == 1 for size in sizes[:axis])
        return found if outermost else lax.rem(found, np.int32(sizes[axis]))

    (call,) = jax.make_jaxpr(jax.jit(coordinate if sizes[axis] > 1 else lambda step: jnp.int32(0)))(_STEP).eqns
    return call


@functools.cache
def _number(n: int):
    (call,) = jax.make_jaxpr(jax.jit(lambda: jnp.int32(n)))().eqns
    return call
