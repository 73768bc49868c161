"""All families of mistakes, in the order in which they are planted: those that a careless test misses come first."""

from __future__ import annotations

from collections.abc import Iterator

from course_lib import compat
from course_lib.checks.planting import copies, index_maps, loops, masks, stores, values
from course_lib.checks.planting.kernel import Kernel
from course_lib.checks.planting.mistake import Change, Mistake, Place
from course_lib.checks.planting.rewriting import replaced
from course_lib.grid.jaxprs import pallas_calls

_FAMILIES = (
    masks.off_by_one,
    stores.initialization,
    index_maps.wrong,
    copies.no_wait,
    stores.overwriting,
    masks.counted_from_the_block,
    values.left_out,
    stores.early_write,
    loops.ending_early,
    stores.forgetting,
    masks.not_applied,
    loops.wrong_axis,
    values.without_sign,
    values.without_operand,
    values.unlimited,
    values.shifted,
    masks.ties,
    stores.rounding,
    values.rounded_products,
    values.without_factor,
)
# The kinds, in the same order; a family may find two.
KINDS = (
    "mask off by one",
    "initialization",
    "index map",
    "wait",
    "overwriting",
    "initialization at the first block only",
    "position in the block",
    "scaling",
    "absolute value",
    "round",
    "early write",
    "loop",
    "forgetting",
    "mask left out",
    "axis",
    "sign",
    "input factor",
    "input term",
    "limit",
    "neighbour",
    "ties",
    "rounding",
    "rounded matmul",
    "factor",
)


def mistakes_in(jaxpr) -> list[Mistake]:
    """Return the mistakes that can be made in the kernels of a traced function, ordered by kind."""
    found = [
        Mistake(
            place=place,
            means=change.means,
            shows=change.shows,
            line=compat.line_of(change.eqn) if change.eqn is not None else "",
        )
        for place, change, _ in _changes(jaxpr)
    ]
    return sorted(found, key=lambda mistake: (KINDS.index(mistake.place.kind), mistake.place))


def with_mistake(jaxpr, place: Place):
    """Return a traced function with the mistake at ``place``; None if this trace has no such place.

    Where a trace has fewer mistakes of the kind than the one that the place comes from, the last of them is made.
    """
    there = [(at, change, call) for at, change, call in _changes(jaxpr) if at[:2] == place[:2]]
    if not there:
        return None
    _, change, call = there[min(place.number, len(there) - 1)]
    return replaced(jaxpr, call, [call.replace(params=change.made())])


def _changes(jaxpr) -> Iterator[tuple[Place, Change, object]]:
    """Yield (place, change, the equation of the kernel call) for every mistake."""
    for number, call in enumerate(pallas_calls(jaxpr)):
        if call.primitive.name != "pallas_call":
            continue
        kernel, counted = Kernel(call), {}
        for family in _FAMILIES:
            for change in family(kernel):
                counted[change.kind] = counted.get(change.kind, -1) + 1
                yield Place(number, change.kind, counted[change.kind]), change, call
