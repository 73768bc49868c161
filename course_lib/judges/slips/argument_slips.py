"""Slips in which argument a kernel reads: two are exchanged, or one is read in the place of another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import jax

from course_lib.judges.slips import slip as slips
from course_lib.judges.slips.slip import Suspect
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.dependence import argument_name
from course_lib.judges.wrong_outputs.finding import Finding

_MOST_ARGUMENTS = 6
_MOST_ELEMENTS = 2**20  # of all arguments: each suspicion takes a run of the reference
_LOOK = "compare the order of the arguments with that of in_specs, and with the kernel's refs."


def slip(found: Finding) -> Complaint | None:
    """Report that the output is right for other arguments: exchanged, or one of them in the place of another."""
    leaves = jax.tree.leaves(found.args)
    if found.is_called or len(leaves) > _MOST_ARGUMENTS or sum(a.size for a in leaves) > _MOST_ELEMENTS:
        return None
    return next((said for suspect in _suspects(found, leaves) if (said := slips.said_of(found, suspect))), None)


def _suspects(found: Finding, leaves: list) -> Iterator[Suspect]:
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
        yield suspect(f"{names[a]} and {names[b]} are exchanged", _LOOK, {a: leaves[b], b: leaves[a]})
    for a, b in (*alike, *(pair[::-1] for pair in alike)):
        yield suspect(f"{names[b]} is read where {names[a]} should be", _LOOK, {a: leaves[b]})
