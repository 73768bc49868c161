"""Slips in lookups: another list, another row of a table, a neighbour's entry, the position in place of the entry."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import grid
from course_lib.judges.slips import reference_softmax
from course_lib.judges.slips import slip as slips
from course_lib.judges.slips.slip import Suspect
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.dependence import argument_name
from course_lib.judges.wrong_outputs.finding import Finding


def slip(found: Finding) -> Complaint | None:
    """Report integer arguments used in another way, if that gives exactly what the function returned."""
    if not any(call.scalars or _in_smem(call) for call in found.walk.calls):
        return None
    leaves, tree = jax.tree.flatten(found.args)
    for means, next_, place, other in _others(found, leaves):
        changed = [*leaves]
        changed[place] = jnp.asarray(other, leaves[place].dtype)
        suspect = Suspect(means, next_, found.reference, jax.tree.unflatten(tree, changed))
        if said := slips.said_of(found, suspect):
            return said
    return None


def _in_smem(call: grid.Call) -> bool:
    """Whether a kernel has an input whose numbers it reads one by one."""
    return any(operand.memory_space == "smem" for operand in call.inputs)


def _others(found: Finding, leaves: list) -> Iterator[tuple[str, str, int, np.ndarray]]:
    """Yield (meaning, what to try, which argument, what it would be)."""
    lists = [n for n, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.integer) and leaf.size > 1]
    for place in lists:
        name, array = argument_name(found, place), np.asarray(leaves[place])
        for other in (n for n in lists if n != place and leaves[n].shape == array.shape):
            instead = argument_name(found, other)
            yield f"{instead} is looked up instead of {name}", "check what each list holds.", place, leaves[other]
        length, at = array.shape[-1], np.arange(array.shape[-1])
        yield (
            f"the index into {name} is used instead of the entry of {name}",
            f"{name}[i], not i.",
            place,
            np.broadcast_to(at, array.shape),
        )
        for by, which in ((1, "after"), (-1, "before")):
            shifted = array[..., np.clip(at + by, 0, length - 1)]
            yield f"the entry {which} of {name} is looked up", "entries count from 0.", place, shifted
        if array.ndim == 2:
            for row, which in ((0, "first"), (-1, "last")):
                yield (
                    f"the {which} row of {name} is used for every row",
                    f"{name}[b, i]: each has its own row.",
                    place,
                    np.broadcast_to(array[row], array.shape),
                )
            for block in sorted(b for b in reference_softmax.sizes_of_blocks(found.walk)):
                yield (
                    f"{name} is indexed by an element, not by its block",
                    f"an entry of {name} stands for a whole block: {name}[b, i] for block i, with i = element // size.",
                    place,
                    array[..., np.minimum(at * block, length - 1)],
                )
