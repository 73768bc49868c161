"""What a wrong element depends on that it should not, or does not depend on and should.

It is found by trying: other numbers in a slice of an argument change what depends on the slice, and NaN there makes it
NaN. If the two disagree, a maximum or a jnp.where has dropped one of them, and the slice is not blamed.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.tolerance.expected import right
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding

_MOST_STEPS = 5_000  # of the grid, in all runs, one for each slice of each argument: a second or two
_LARGEST = 1e38  # what is added to a slice stays within float32


def wrong_terms(found: Finding) -> Complaint | None:
    """Report slices of an argument that the first wrong element depends on and should not, or the reverse."""
    if found.run is None or not np.isfinite(float(found.got[found.first])):
        return None
    leaves, tree = jax.tree.flatten(found.args)
    floats = [n for n, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.ndim]
    steps = 5 + sum(call.steps for call in found.walk.calls)
    if not floats or steps * sum(sum(leaves[n].shape) for n in floats) > _MOST_STEPS:
        return None
    try:
        for place in floats:
            for axis in range(leaves[place].ndim):
                if said := _along(found, leaves, tree, place, axis):
                    return said
    except Exception:  # a reference that cannot run so
        return None
    return None


def nan_let_in(found: Finding) -> Complaint | None:
    """Report NaN or inf in an argument that must not count but does: with 0 in their place, all is right."""
    if found.run is None or np.isfinite(float(found.got[found.first])) or np.isnan(found.want.value[found.first]):
        return None
    leaves, tree = jax.tree.flatten(found.args)
    floats = [n for n, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    stale = [n for n in floats if not jnp.isfinite(leaves[n]).all()]
    for places in [*([n] for n in stale), *([stale] if len(stale) > 1 else [])]:
        cleaned = [jnp.where(jnp.isfinite(leaf), leaf, 0) if n in places else leaf for n, leaf in enumerate(leaves)]
        outputs = found.run(jax.tree.unflatten(tree, cleaned))
        if not right(outputs[found.number], found.want)[found.wrong].all():
            continue
        place = places[0]
        leaf = leaves[place]
        at = _let_in(found, place, cleaned)
        value = "NaN" if np.isnan(np.asarray(leaf, np.float32)[at]) else "inf"
        return Complaint(
            f"{argument_name(found, place)}[{', '.join(map(str, at))}] is {value} and must not count; with 0 in its "
            "place the result is right.",
            "values that must not count have to be replaced, by jnp.where, before they are multiplied: a weight of 0 "
            f"does not remove {value}, because 0 * {value} is NaN.",
        )
    return None


def _let_in(found: Finding, place: int, cleaned: list) -> tuple[int, ...]:
    """Return the index of one NaN or inf that spoils the output by itself, or of the first if none does.

    ``cleaned``: the arguments without any. Halve those that are left in argument ``place``, as long as the output
    stays wrong.
    """
    leaves, tree = jax.tree.flatten(found.args)
    leaf, leaves = leaves[place], [*cleaned]
    suspects = np.argwhere(~np.isfinite(np.asarray(leaf, np.float32)))
    first = suspects[0]
    nan_first = np.argsort(~np.isnan(np.asarray(leaf, np.float32)[tuple(suspects.T)]), kind="stable")
    suspects = suspects[nan_first]
    while len(suspects) > 1:
        for half in np.array_split(suspects, 2):
            stays = np.zeros(leaf.shape, bool)
            stays[tuple(half.T)] = True
            leaves[place] = jnp.where(jnp.isfinite(leaf) | stays, leaf, 0)
            outputs = found.run(jax.tree.unflatten(tree, leaves))
            if not right(outputs[found.number], found.want).all():
                suspects = half
                break
        else:
            return tuple(first.tolist())
    return tuple(suspects[0].tolist())


def _along(found: Finding, leaves: list, tree, place: int, axis: int) -> Complaint | None:
    length = leaves[place].shape[axis]
    far = min(1000 * (1 + float(jnp.nanmax(jnp.abs(leaves[place])))), _LARGEST)
    taken, needed = np.zeros(length, bool), np.zeros(length, bool)

    def both(slice_of, change) -> tuple[bool, bool]:
        """Whether a changed slice changes the element, (of the kernel, of the reference)."""
        changed = [*leaves]
        changed[place] = change(leaves[place].at[(slice(None),) * axis + (slice_of,)])
        args = jax.tree.unflatten(tree, changed)
        mine, its = found.run(args)[found.number], jax.tree.leaves(found.reference(*args))[found.number]
        return _differs(mine, found.got, found.first), _differs(its, found.want.value, found.first)

    for n in range(length):
        taken[n], needed[n] = both(n, lambda part: part.add(far))
        if taken[n] != needed[n] and both(n, lambda part: part.set(jnp.nan)) != (taken[n], needed[n]):
            taken[n] = needed[n] = False
    element = f"{found.name} at [{', '.join(map(str, found.first))}]" if found.first else found.name
    name = argument_name(found, place)
    more = np.flatnonzero(taken & ~needed)
    if len(missing := np.flatnonzero(needed & ~taken)):
        instead = f" It depends on {_part(name, more, leaves[place].ndim, axis)} instead." if len(more) else ""
        return Complaint(
            f"{element} should depend on {_part(name, missing, leaves[place].ndim, axis)}, but does not.{instead}",
            "find what leaves it out: a mask, a slice, a condition, or the number of iterations. Or something else "
            "may be used in its place.",
        )
    if len(more):
        return Complaint(
            f"{element} depends on {_part(name, more, leaves[place].ndim, axis)}, but should not.",
            "find what lets it in: a mask that is off by one, a sum along another axis, or a wrong index.",
        )
    return None


def _differs(array, before: np.ndarray, at: tuple[int, ...]) -> bool:
    return bool(np.asarray(array)[at] != before[at])


def _part(name: str, indices: np.ndarray, rank: int, axis: int) -> str:
    """Return the first run of ``indices`` along an axis: "x[16:20]", "x[:, 1]"."""
    end = next((n for n in range(1, len(indices)) if indices[n] != indices[0] + n), len(indices))
    start, stop = int(indices[0]), int(indices[0]) + end
    return f"{name}[{':, ' * axis}{start if stop == start + 1 else f'{start}:{stop}'}{', :' * (rank - axis - 1)}]"


def argument_name(found: Finding, place: int) -> str:
    """Return the reference's name of an argument, or "argument 0"."""
    try:
        parameters = list(inspect.signature(found.reference).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters[: len(found.args)]]  # those behind them must do without an argument
    alone = all(p.default is not p.empty for p in parameters[len(found.args) :])
    return names[place] if alone and len(names) == len(found.args) == len(found.leaves) else f"argument {place}"
