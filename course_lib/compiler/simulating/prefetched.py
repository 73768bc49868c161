"""Prefetched values written into a function for the simulator, if they decide what a kernel does.

libtpu's simulator (0.0.48 and 0.0.50) follows the scalar core, but takes every element of a prefetched array to be 0: a
block whose index is looked up never changes, a loop up to ``lengths_ref[b]`` has no iterations, and the simulator
aborts if a copy is awaited that was never started. It also aborts if the arrays are computed in the same program. Here
their values are known. For the simulation alone, a load that decides something therefore becomes that load plus the
value that it should have found, computed from the index by arithmetic (``lookup``); the arrays become arguments; and a
grid with a computed size gets that size. A load that only says where a copy begins stays unchanged. A check over the
whole grid tells whether that was enough: with zeros in its arrays, the kernel must visit the same blocks, take the same
branches and start the same copies as with the real ones.
"""

import math
from collections.abc import Callable

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from course_lib import grid
from course_lib.compiler.simulating import deciding, rewrite
from course_lib.compiler.simulating.divisions import same
from course_lib.compiler.simulating.lookup import lookup
from course_lib.grid.following.follow import index_reads, prefetched_reads
from course_lib.grid.jaxprs import is_variable, map_inside

UNSEEN = "the work of a kernel depends on values that it prefetches, which the simulator does not see"


def matters(jaxpr: jax.extend.core.ClosedJaxpr) -> bool:
    """Whether a kernel decides anything by a prefetched value, or its grid has a computed size."""
    found = [eqn for eqn in grid.pallas_calls(jaxpr) if _sizes(eqn)]
    rewrite.kernels(jaxpr, lambda _, eqn: _kernel(eqn, lambda load, *_: found.append(load) or [load]))
    return bool(found)


def told(jaxpr: jax.extend.core.ClosedJaxpr, args: tuple, chip: str) -> tuple[jax.extend.core.ClosedJaxpr, tuple]:
    """Return the function for the simulator, and its flat arguments; the arrays that its kernels prefetch come last.

    Raises grid.UnreadableCall if that is impossible: the arrays are not known, a kernel cannot be followed, or there
    are too many values.
    """
    calls = grid.walk_traced(jaxpr, args).calls

    def kernel(number: int, eqn):
        call = calls[number]
        in_body = prefetched_reads(call) if call.scalars else ()
        places = np.unravel_index(np.arange(call.steps), call.grid) if call.grid else ()
        coordinates = [np.asarray(c, np.int32) for c in places]

        def with_number(load, ref: int, index_map=None):
            reads = in_body if index_map is None else index_reads(index_map, coordinates, call.scalars)
            if (there := _lookup(load, call.scalars[ref], reads[ref])) is None:
                raise grid.UnreadableCall(f"{call.operands[ref].name} holds too many to pass to it")
            return there

        return _with_grid(_kernel(eqn, with_number), call.grid)

    written = rewrite.kernels(jaxpr, kernel)
    written, arrays = _as_arguments(written, args, calls, chip)
    known = jax.tree.leaves(args)
    if not same(calls, grid.walk_traced(written, (*known, *map(np.zeros_like, arrays))).calls):
        raise grid.UnreadableCall("with the values that could be passed to it, it would not do the same")
    return written, (*known, *arrays)


def _kernel(eqn, change: Callable):
    """Replace each deciding load in a kernel call by the equations ``change(load, ref, index_map)``.

    ``ref`` is the number of the prefetched array, ``index_map`` is None in the body.
    """
    mapping = eqn.params.get("grid_mapping")
    if mapping is None or not mapping.num_index_operands:
        return eqn
    count = mapping.num_index_operands

    def index_map(block):
        jaxpr = block.index_map_jaxpr
        refs = _numbered(jaxpr.invars[len(mapping.grid) :])
        found = _body(jaxpr, refs, _variables(jaxpr.outvars), lambda load, ref: change(load, ref, jaxpr))
        return block.replace(index_map_jaxpr=found)

    blocks = tuple(map(index_map, mapping.block_mappings))
    eqn = map_inside(eqn, lambda body: _body(body, _numbered(body.invars[:count]), set(), change))
    return eqn.replace(params=eqn.params | {"grid_mapping": mapping.replace(block_mappings=blocks)})


def _sizes(eqn) -> int:
    """Return how many sizes of a kernel call's grid are computed; they are its first operands."""
    return eqn.params["grid_mapping"].num_dynamic_grid_bounds if "grid_mapping" in eqn.params else 0


def _with_grid(eqn, sizes: tuple[int, ...]):
    if not (computed := _sizes(eqn)):
        return eqn
    mapping = eqn.params["grid_mapping"].replace(grid=sizes)
    return eqn.replace(invars=eqn.invars[computed:], params=eqn.params | {"grid_mapping": mapping})


def _body(jaxpr, refs: dict, outputs: set, change: Callable):
    """Change the deciding loads of a jaxpr; ``refs``: variable -> number of the prefetched array."""
    found, eqns = deciding.deciding(jaxpr, outputs), []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "get" and eqn.invars[0] in refs and eqn.outvars[0] in found:
            eqns += change(eqn, refs[eqn.invars[0]])
        else:
            eqns.append(_inside(eqn, refs, found, change))
    return jaxpr.replace(eqns=eqns)


def _inside(eqn, refs: dict, found: set, change: Callable):
    """Change the jaxprs that an equation runs."""
    changed = {}
    for jaxpr, variables, inputs, all_of_them in deciding.parts(eqn):
        pairs = zip(variables, inputs, strict=True)
        inner = {v: refs[outer] for v, outer in pairs if is_variable(outer) and outer in refs}
        changed[id(jaxpr)] = _body(jaxpr, inner, deciding.inner_outputs(eqn, jaxpr, all_of_them, found), change)
    return map_inside(eqn, lambda jaxpr: changed.get(id(jaxpr), jaxpr)) if changed else eqn


def _lookup(load, array: np.ndarray, read: np.ndarray) -> list | None:
    """Return a load with its value added to it; None if that takes too many operations, or the value is not an int32.

    ``read``: which elements of the array are read anywhere.
    """
    index, places = _index(load), np.flatnonzero(read)
    if index is None or array.dtype != np.int32 or (table := lookup(places, array.reshape(-1)[places])) is None:
        return None

    if array.size == 1:  # for an array of one element the simulator's decisions are arbitrary
        (number,) = jax.make_jaxpr(jax.jit(lambda: jnp.int32(array.item())))().eqns
        return [number.replace(outvars=list(load.outvars))]

    def with_number(loaded, *index):
        return loaded + table.at(sum(i * np.int32(n) for i, n in zip(index, _strides(array.shape), strict=True)))

    (result,) = load.outvars
    loaded = jax.extend.core.Var(result.aval)
    numbers = [jax.ShapeDtypeStruct((), np.int32)] * (1 + len(index))
    (call,) = jax.make_jaxpr(jax.jit(with_number))(*numbers).eqns
    return [load.replace(outvars=[loaded]), call.replace(invars=[loaded, *index], outvars=[result])]


def _index(load) -> list | None:
    """Return the index of the single element that a load reads; None if it is written in another way."""
    transforms = jax.tree.unflatten(load.params["tree"], load.invars[1:])
    if load.outvars[0].aval.shape != () or len(transforms) != 1:
        return None
    index = list(transforms[0].indices)
    return index if all(getattr(getattr(i, "aval", None), "shape", None) == () for i in index) else None


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _as_arguments(jaxpr, args: tuple, calls: tuple[grid.Call, ...], chip: str) -> tuple:
    """Pass the arrays that kernels prefetch as further arguments; return the function and these arrays."""
    flat = grid.trace(lambda *a: grid.run(jaxpr, False, *a), *args, chip=chip)
    arrays, more = [jnp.asarray(array) for call in calls for array in call.scalars], []

    def handed_over(number: int, eqn):
        count = len(calls[number].scalars)
        new = [jax.extend.core.Var(v.aval) for v in eqn.invars[:count]]
        more.extend(new)
        return eqn.replace(invars=[*new, *eqn.invars[count:]])

    flat = rewrite.kernels(flat, handed_over)
    names = flat.jaxpr.debug_info._replace(arg_names=None)
    return flat.replace(jaxpr=flat.jaxpr.replace(invars=[*flat.jaxpr.invars, *more], debug_info=names)), arrays


def _numbered(refs: list) -> dict:
    return {ref: number for number, ref in enumerate(refs)}


def _variables(atoms: list) -> set:
    return set(filter(is_variable, atoms))
