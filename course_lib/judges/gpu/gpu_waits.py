"""Which wait a Mosaic GPU kernel has for a copy out of shared memory that a later line overwrites."""

from collections.abc import Iterator

import jax.extend.core

from course_lib import compat, grid
from course_lib.grid import jaxprs

_COPY, _WAIT = "copy_smem_to_gmem", "wait_smem_to_gmem"
Place = tuple[str, int]  # file and line


def said_of(jaxpr: jax.extend.core.ClosedJaxpr, copied: Place, written: Place) -> str:
    """Say why no wait protects what is copied out at one place from what is written at another, later one.

    Returns "" if the lines are not in the traced function, or if a wait between them seems strict enough.
    """
    for kernel in grid.pallas_calls(jaxpr.jaxpr):
        steps = [eqn for inner in jaxprs.inside(kernel) for eqn in _in_order(inner)]
        places = list(map(compat.place_of, steps))
        first = next((n for n, eqn in enumerate(steps) if eqn.primitive.name == _COPY and places[n] == copied), None)
        if first is None or written not in places[first:]:
            continue
        write = places.index(written, first)
        waits = [n for n, eqn in enumerate(steps) if eqn.primitive.name == _WAIT and n > first]
        if not waits:
            return "Nothing waits for that copy."
        if waits[0] > write:
            return f"The first wait for that copy, in line {places[waits[0]][1]}, comes after the write."
        strict = min((n for n in waits if n < write), key=lambda n: steps[n].params["n"])
        left = steps[strict].params["n"]
        latest = (
            "the latest copy, which is this one," if left == 1 else f"the {left} latest copies, this one among them,"
        )
        return f"The wait between the two, in line {places[strict][1]}, lets {latest} go on." if left else ""
    return ""


def _in_order(jaxpr) -> Iterator:
    """Yield the equations of a kernel in the order in which they run, the bodies of its loops twice."""
    for eqn in jaxpr.eqns:
        yield eqn
        for _ in range(2 if eqn.primitive.name in ("scan", "while") else 1):
            for inner in jaxprs.inside(eqn):
                yield from _in_order(getattr(inner, "jaxpr", inner))
