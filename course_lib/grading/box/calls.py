"""Calls from one process to a function in the other: arrays are sent as their types, and a program comes back.

Both sides do both: a judge calls what a student wrote, and that may call what the judge passed to it.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jax._src import api_util, core, linear_util
from jax._src.state import types as state
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.interpreters import partial_eval

from course_lib import chips, compat, grid
from course_lib.grading.box import values, writing

# The memories that a block spec may name, by the word that is sent.
MEMORY = {"any": pl.ANY, "vmem": pltpu.VMEM, "smem": pltpu.SMEM, "hbm": pltpu.HBM}


class _Type:
    """A placeholder for an array, of which only the type is sent."""

    def __init__(self, aval: core.AbstractValue):
        self.aval = aval


def arguments(given: object, other: Callable) -> tuple[object, list]:
    """Return (the arguments as a node, the arrays among them). ``other(value, depth)`` writes all that is no value."""
    arrays: list = []

    def typed(leaf: object) -> object:
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return _Type(core.ShapedArray(leaf.shape, leaf.dtype))
        if not isinstance(leaf, np.ndarray | np.generic | jax.Array | core.Tracer):
            return leaf
        arrays.append(leaf)
        return _Type(core.typeof(leaf))

    def written(value: object, depth: int) -> object:
        if not isinstance(value, _Type):
            return other(value, depth)
        kind = "ref" if isinstance(value.aval, state.AbstractRef) else "type"
        return [kind, list(value.aval.shape), value.aval.dtype.name]

    return values.written(jax.tree.map(typed, given), written), arrays


def type_of(tag: str, parts: list) -> object:
    """Return the placeholder of an array in the arguments of a call. Raise Damaged."""
    shape, dtype = values.items(parts, 2)
    found = values.DTYPES.get(dtype) if isinstance(dtype, str) else None
    if found is None or tag not in ("type", "ref"):
        raise values.Damaged("the type of an array is wanted.")
    if tag == "ref":
        return state.AbstractRef(core.ShapedArray(values.sizes(shape), found), None)
    return jax.ShapeDtypeStruct(values.sizes(shape), found)


def answered(
    fn: Callable, args: tuple, kwargs: dict, chip: str, written: Callable, axes: dict[str, int] | None = None
) -> list:
    """Return ["value", ...] for plain arguments, or ["program", jaxpr, structure] if some are types of arrays.

    ``axes``: the sizes of the mesh axes, if ``fn`` is what one device of several does.
    """
    leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=_is_type)
    places = [n for n, leaf in enumerate(leaves) if _is_type(leaf)]
    if not places:
        return ["value", written(fn(*args, **kwargs))]

    def traced(*arrays):
        filled = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        args, kwargs = jax.tree.unflatten(structure, filled)
        return fn(*args, **kwargs)

    types = [leaves[n] for n in places]
    if chip in chips.GPU_TARGETS:
        with chips.gpu_target(chip).target(), pltpu.force_tpu_interpret_mode(False):
            jaxpr, result = jax.make_jaxpr(traced, return_shape=True)(*types)
            return ["program", writing.program(jaxpr), writing.tree(jax.tree.structure(result))]
    with chips.chip(chip).target(), pltpu.force_tpu_interpret_mode(False), compat.mesh_axes(axes or {}):
        if any(isinstance(t, state.AbstractRef) for t in types):
            jaxpr, result = _traced_with_refs(traced, types)
        else:
            jaxpr, result = grid.trace_with_result(traced, *types, chip=chip)
        return ["program", writing.program(jaxpr), writing.tree(jax.tree.structure(result))]


def traced_for(default: str) -> str:
    """Return the chip that this process is tracing for, a TPU or a GPU; ``default`` if it is none of ours."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    kind = getattr(device, "device_kind", None)
    known = {chips.chip(name).device_kind: name for name in chips.NAMES}
    known |= {chips.gpu_target(name).kind: name for name in chips.GPU_TARGETS}
    return known.get(kind, default)


def _is_type(leaf: object) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct | state.AbstractRef)


def _traced_with_refs(fn: Callable, types: list) -> tuple[jax.extend.core.ClosedJaxpr, object]:
    """Trace a kernel, which returns nothing, or an index map that reads refs; return its jaxpr and its result."""
    info, results = api_util.debug_info("box", fn, tuple(types), {}), []

    def flat(*refs):
        results.append(fn(*refs))
        return [jax.numpy.asarray(leaf) for leaf in jax.tree.leaves(results[-1])]

    avals = [t if isinstance(t, state.AbstractRef) else core.ShapedArray(t.shape, t.dtype) for t in types]
    jaxpr, _, consts = partial_eval.trace_to_jaxpr_dynamic(linear_util.wrap_init(flat, debug_info=info), avals)
    return jax.extend.core.ClosedJaxpr(jaxpr, consts), results[-1]
