"""What a wrong element is made of: it may take in what it should not, or leave out what it should take.

Found by trying: with other numbers in a slice of an argument, what depends on the slice is another; with NaN there, it
is NaN. Where the two disagree, a maximum or a jnp.where has dropped one of them, and nobody is blamed.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.tolerance.expected import right
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding

_MOST_STEPS = 5_000  # of the grid, in all runs: a second or two. There is a run for each slice of each argument


def wrong_terms(found: Finding) -> Complaint | None:
    """Slices of an argument that the first wrong element depends on, and should not; or the other way round."""
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
    except Exception:  # a reference that cannot be run so
        return None
    return None


def nan_let_in(found: Finding) -> Complaint | None:
    """NaN in an argument that must not count, and does: all is right with another number in its place."""
    if found.run is None or np.isfinite(float(found.got[found.first])) or np.isnan(found.want.value[found.first]):
        return None
    for place, leaf in enumerate(jax.tree.leaves(found.args)):
        if not jnp.issubdtype(leaf.dtype, jnp.floating) or not jnp.isnan(leaf).any():
            continue
        leaves, tree = jax.tree.flatten(found.args)
        leaves[place] = jnp.where(jnp.isnan(leaf), 0, leaf)
        outputs = found.run(jax.tree.unflatten(tree, leaves))
        if not right(outputs[found.number], found.want)[found.wrong].all():
            continue
        at = ", ".join(map(str, np.argwhere(np.isnan(np.asarray(leaf)))[0].tolist()))
        return Complaint(
            f"{argument_name(found, place)}[{at}] is NaN, and must not count; with 0 in its place all is right.",
            "what must not count has to be replaced, by jnp.where, before it is multiplied: a weight of 0 does not put "
            "NaN out, for 0 * NaN is NaN.",
        )
    return None


def _along(found: Finding, leaves: list, tree, place: int, axis: int) -> Complaint | None:
    length = leaves[place].shape[axis]
    far = 1000 * (1 + float(jnp.nanmax(jnp.abs(leaves[place]))))
    taken, needed = np.zeros(length, bool), np.zeros(length, bool)

    def both(slice_of, change) -> tuple[bool, bool]:
        """Whether the element is another, (of the kernel, of the reference), with a slice that is changed."""
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
            f"{element} should depend on {_part(name, missing, leaves[place].ndim, axis)}, and does not.{instead}",
            "what leaves it out: a mask, a slice, a condition, the number of turns? Or is something else there in its "
            "place?",
        )
    if len(more):
        return Complaint(
            f"{element} depends on {_part(name, more, leaves[place].ndim, axis)}, and should not.",
            "what lets it in: a mask that is one off, a sum along another axis, an index?",
        )
    return None


def _differs(array, before: np.ndarray, at: tuple[int, ...]) -> bool:
    return bool(np.asarray(array)[at] != before[at])


def _part(name: str, indices: np.ndarray, rank: int, axis: int) -> str:
    """The first run of ``indices`` along an axis: "x[16:20]", "x[:, 1]"."""
    end = next((n for n in range(1, len(indices)) if indices[n] != indices[0] + n), len(indices))
    start, stop = int(indices[0]), int(indices[0]) + end
    return f"{name}[{':, ' * axis}{start if stop == start + 1 else f'{start}:{stop}'}{', :' * (rank - axis - 1)}]"


def argument_name(found: Finding, place: int) -> str:
    """What the reference calls an argument, or "argument 0"."""
    try:
        names = list(inspect.signature(found.reference).parameters)
    except (TypeError, ValueError):
        names = []
    return names[place] if len(names) == len(found.args) == len(found.leaves) else f"argument {place}"
