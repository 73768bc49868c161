"""Mistakes in an index map: an axis of the grid that it ignores, two that it swaps, the block before."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp

from course_lib.checks.planting.kernel import Kernel
from course_lib.checks.planting.mistake import Change
from course_lib.checks.planting.rewriting import computed, fresh, literal, substituted
from course_lib.grid.jaxprs import is_variable, with_equations

_BLOCKS = "use sizes that need several blocks along every axis, and values that differ from block to block."


def wrong(kernel: Kernel) -> Iterator[Change]:
    """Yield the kernels with a mistake in one index map; all their blocks lie in the array, as those before."""
    mapping = kernel.params["grid_mapping"]
    names = [kernel.ref(v) for v in kernel.body.invars[mapping.num_index_operands :]]
    for number, block in enumerate(mapping.block_mappings):
        index_map = block.index_map_jaxpr
        for axis in _used(index_map, kernel.grid):
            letter = _letter(index_map, axis)
            changes = {
                f"the index map of {names[number]} ignores {letter}: all its steps use the first block": _ignored,
                f"the index map of {names[number]} is one block behind along {letter}": _behind,
            }
            for means, change in changes.items():

                def changed(number=number, block=block, axis=axis, change=change) -> dict:
                    blocks = list(mapping.block_mappings)
                    blocks[number] = block.replace(index_map_jaxpr=change(block.index_map_jaxpr, axis))
                    return kernel.params | {"grid_mapping": mapping.replace(block_mappings=tuple(blocks))}

                yield Change("index map", means, _BLOCKS, None, changed)


def _used(index_map, grid: tuple) -> list[int]:
    """Return the axes of the grid that an index map takes, and along which there is more than one step."""
    bare = getattr(index_map, "jaxpr", index_map)
    taken = {atom for eqn in bare.eqns for atom in eqn.invars if is_variable(atom)}
    taken |= {atom for atom in bare.outvars if is_variable(atom)}
    return [axis for axis, size in enumerate(grid) if size != 1 and bare.invars[axis] in taken]


def _ignored(index_map, axis: int):
    place = getattr(index_map, "jaxpr", index_map).invars[axis]
    return substituted(index_map, {place: literal(0, place)})


def _behind(index_map, axis: int):
    """Return the map of the step before along an axis; the first step is its own."""
    place = getattr(index_map, "jaxpr", index_map).invars[axis]
    before = fresh(place.aval)
    first = computed(lambda i: jnp.maximum(i - 1, 0), [place], [before])
    rest = substituted(index_map, {place: before})
    return with_equations(rest, [*first, *rest.eqns])


def _letter(index_map, axis: int) -> str:
    names = index_map.debug_info.arg_names or ()
    return names[axis] if axis < len(names) and str(names[axis]).isidentifier() else f"axis {axis} of the grid"
