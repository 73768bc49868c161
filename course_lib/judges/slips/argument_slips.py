"""Slips in which argument a kernel reads: two are exchanged, or one is read in the place of another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.slips import reference_softmax
from course_lib.judges.slips import slip as slips
from course_lib.judges.slips.slip import Suspect
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.dependence import argument_name
from course_lib.judges.wrong_outputs.finding import Finding

_MOST_ARGUMENTS = 6
_MOST_ELEMENTS = 2**20  # of all arguments: each suspicion takes a run of the reference
_ONE_OFF = "check for a <= that should be <, or the reverse, and for a 1 that is added or subtracted by mistake."
_LOOK = "compare the order of the arguments with in_specs, and with the kernel's refs."


def slip(found: Finding) -> Complaint | None:
    """Report that the outputs are right for other arguments: exchanged, or one of them in the place of another."""
    told = ((suspect, slips.said_of(found, suspect)) for suspect in _suspects(found))
    return next((said for suspect, said in told if said and not _changes_another(found, suspect)), None)


def of_one_output(found: Finding) -> Complaint | None:
    """Report the same where another output is not as it would be: a kernel may read an argument in several places."""
    return next((said for suspect in _suspects(found) if (said := slips.said_of(found, suspect))), None)


def part_for_all(found: Finding) -> Complaint | None:
    """Report that a part of an argument is used in the place of others: one number, or one block."""
    leaves, tree = jax.tree.flatten(found.args)
    if _too_many(found, leaves):
        return None
    blocks = sorted(reference_softmax.sizes_of_blocks(found.walk))
    for n, leaf in enumerate(leaves):
        for means, next_, other in _parts_for_all(argument_name(found, n), leaf, blocks):
            changed = jax.tree.unflatten(tree, [*leaves[:n], other, *leaves[n + 1 :]])
            if said := slips.said_of(found, Suspect(means, next_, found.reference, changed)):
                return said
    return None


def _too_many(found: Finding, leaves: list) -> bool:
    return found.is_called or len(leaves) > _MOST_ARGUMENTS or sum(a.size for a in leaves) > _MOST_ELEMENTS


def _changes_another(found: Finding, suspect: Suspect) -> bool:
    """Whether another output of the function is not what the slip would make of it."""
    try:
        got = found.run(found.args)
        slipped = [np.asarray(leaf) for leaf in jax.tree.leaves(suspect.value(*suspect.args))]
        return not all(
            slips.alike(ours, theirs)
            for number, (ours, theirs) in enumerate(zip(got, slipped, strict=True))
            if number != found.number
        )
    except Exception:  # it cannot be run again, so this is unknown
        return False


def _suspects(found: Finding) -> Iterator[Suspect]:
    leaves = jax.tree.leaves(found.args)
    if _too_many(found, leaves):
        return
    tree, names = jax.tree.structure(found.args), [argument_name(found, n) for n in range(len(leaves))]
    alike = [
        (a, b)
        for a, b in itertools.combinations(range(len(leaves)), 2)
        if (leaves[a].shape, leaves[a].dtype) == (leaves[b].shape, leaves[b].dtype)
    ]

    def suspect(means: str, next: str, changes: dict) -> Suspect:
        changed = [changes.get(n, leaf) for n, leaf in enumerate(leaves)]
        return Suspect(means, next, found.reference, jax.tree.unflatten(tree, changed))

    for a, b in alike:
        yield suspect(f"{names[a]} and {names[b]} are swapped", _LOOK, {a: leaves[b], b: leaves[a]})
    for a, b in (*alike, *(pair[::-1] for pair in alike)):
        yield suspect(f"{names[b]} is read where {names[a]} should be", _LOOK, {a: leaves[b]})
    for n, leaf in enumerate(leaves):
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            for by, way in ((1, "more"), (-1, "less")):
                yield suspect(f"{names[n]} is taken for one {way} than it is", _ONE_OFF, {n: leaf + by})


def _parts_for_all(name: str, leaf: jax.Array, blocks: list[int]) -> Iterator[tuple[str, str, jax.Array]]:
    """Yield (meaning, what to try, array) where a part of an argument is used in the place of others."""
    long = [axis for axis, length in enumerate(leaf.shape) if length > 1]
    for axis in long:
        length, at = leaf.shape[axis], np.arange(leaf.shape[axis])
        for size in (b for b in blocks if b < length and length % b == 0):
            yield (
                f"the first block of {size} along axis {axis} of {name} is used in place of every other block",
                "the block has to move with the loop or the grid: check how its start is computed.",
                jnp.take(leaf, at % size, axis),
            )
        if len(long) > 1:
            continue
        for size in (b for b in (*blocks, length) if length % b == 0):
            which = "" if size == length else f" of each block of {size}"
            yield (
                f"the first value of {name}{which} is used for all of them",
                f"each has its own value: read the whole ref of {name}, not one element of it.",
                jnp.take(leaf, at // size * size, axis),
            )
