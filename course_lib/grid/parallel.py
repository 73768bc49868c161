"""A kernel call with its "parallel" axes in front, where JAX's simulator wants them: it shares those between cores."""

from course_lib.grid.jaxprs import map_inside, with_equations

_ASKS_FOR_AN_AXIS = ("program_id", "num_programs")


def parallel_first(params: dict, parallel: list[bool]) -> dict:
    """Return the parameters of a kernel call whose axes marked in ``parallel`` come first, otherwise in order.

    A core goes through its share of them in the order of the chip, axis by axis, so only steps that differ along a
    parallel axis change places. Unchanged if a size of the grid is known only at run time.
    """
    mapping, order = params["grid_mapping"], sorted(range(len(parallel)), key=lambda axis: not parallel[axis])
    sizes = mapping.grid
    if order == list(range(len(sizes))) or not all(isinstance(n, int) for n in sizes) or mapping.local_grid_env:
        return params
    of_kernel = [axis for axis in range(len(sizes)) if axis not in mapping.vmapped_dims]  # the axes that it counts
    there = [axis for axis in order if axis in of_kernel]
    places = [there.index(axis) for axis in of_kernel]
    blocks = [b.replace(index_map_jaxpr=_with_inputs(b.index_map_jaxpr, order)) for b in mapping.block_mappings]
    mapping = mapping.replace(
        grid=tuple(sizes[axis] for axis in order),
        grid_names=mapping.grid_names and tuple(mapping.grid_names[axis] for axis in order),
        vmapped_dims=tuple(n for n, axis in enumerate(order) if axis in mapping.vmapped_dims),
        block_mappings=tuple(blocks),
    )
    return params | {"grid_mapping": mapping, "jaxpr": _renumbered(params["jaxpr"], places)}


def _with_inputs(closed, order: list[int]):
    """Return an index map that takes the grid's indices in another order."""
    jaxpr = getattr(closed, "jaxpr", closed)
    moved = jaxpr.replace(invars=[*(jaxpr.invars[axis] for axis in order), *jaxpr.invars[len(order) :]])
    return moved if jaxpr is closed else closed.replace(jaxpr=moved)


def _renumbered(jaxpr, places: list[int]):
    """Return a kernel's body that asks for axis ``places[n]`` of the grid where it asked for axis n."""
    eqns = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in _ASKS_FOR_AN_AXIS:
            eqn = eqn.replace(params=eqn.params | {"axis": places[eqn.params["axis"]]})
        eqns.append(map_inside(eqn, lambda body: _renumbered(body, places)))
    return with_equations(jaxpr, eqns)
