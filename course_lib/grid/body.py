"""Follow a kernel's scalars through its grid: which branches it takes, how often it loops, what it copies by hand.

The scalar core of a TPU decides where copies go and what runs; it works with grid indices, loop counters and
prefetched integers, and all of those are known here. So the body is evaluated for them, at all grid steps at
once, and array values are left open. Where a decision depends on an array's values, that is said, never guessed.
"""

import functools

import numpy as np

from course_lib.grid.call import Call, Scratch, UnreadableCall
from course_lib.grid.followed import Followed, Use
from course_lib.grid.follower import Follower
from course_lib.grid.jaxprs import equations
from course_lib.grid.refs import Ref, scoped_names, space_of


@functools.lru_cache(maxsize=64)
def follow(call: Call) -> Followed:
    """Follow one kernel over its grid, all steps at once; one by one where a step leaves scalars for the next.

    Raises UnreadableCall if that would take more than three million evaluations.
    """
    follower = _follower_of_all_steps(call)
    if follower.stored and (follower.doubt or follower.hidden_copies) and not follower.ordered:
        follower = _follower_in_order(call)
    return follower.result()


@functools.lru_cache(maxsize=64)
def uses(call: Call) -> tuple[Use, ...] | None:
    """Where a kernel touches memory, in the order of its program; None if that cannot be told, or is too much."""
    try:
        follower = _follower_of_all_steps(call, uses=[])
        if follower.stored and (follower.doubt or follower.hidden_copies) and not follower.ordered:
            follower = _follower_in_order(call, uses=[])
    except UnreadableCall:
        return None
    return tuple(follower.uses)


def index_values(jaxpr, coordinates: list, scalars: tuple) -> list:
    """The outputs of an index map at the steps whose grid coordinates are given; UNKNOWN where it does more."""
    refs = [Ref("scalars", "smem", v.aval) for v in jaxpr.invars[len(coordinates) :]]
    for ref, array in zip(refs, scalars, strict=True):
        ref.give(array)
    return Follower(grid=(), coordinates=()).jaxpr(jaxpr, [*coordinates, *refs], np.True_, 1)


def _follower_of_all_steps(call: Call, uses: list | None = None) -> Follower:
    """One that has followed all steps at once."""
    if call.steps == 1:
        return _follower_in_order(call, uses)
    coordinates = np.unravel_index(np.arange(call.steps), call.grid)
    follower = Follower(grid=call.grid, coordinates=tuple(np.asarray(c, np.int32) for c in coordinates))
    follower.uses, follower.names = uses, _names(call)
    follower.jaxpr(call.kernel, _refs(call), np.ones(call.steps, bool), 1)
    return follower


def _follower_in_order(call: Call, uses: list | None = None) -> Follower:
    """One that has gone step after step, with the scalars that one leaves in SMEM for the next."""
    follower, refs = Follower(grid=call.grid, coordinates=(), ordered=True), _refs(call)
    follower.uses, follower.names = uses, _names(call)
    for step in range(call.steps):
        follower.coordinates, follower.first = call.step(step), step
        follower.jaxpr(call.kernel, refs, np.True_, 1)
    return follower


def _refs(call: Call) -> list:
    names = [(o.name, o.memory_space) for o in call.operands] + [(s.name, s.memory_space) for s in call.scratch]
    refs = [Ref(name, space, v.aval) for (name, space), v in zip(names, call.kernel.invars, strict=True)]
    for ref, array in zip(refs, call.scalars, strict=False):
        ref.give(array)
    return refs


def scoped(call: Call) -> tuple[Scratch, ...]:
    """The refs that a kernel's body allocates for itself (pl.run_scoped, pl.kernel's scratch, emit_pipeline)."""
    return tuple(
        Scratch(name=name, memory_space=space_of(v.aval), shape=tuple(v.aval.shape), dtype=v.aval.dtype)
        for eqn in equations(call.kernel)
        if eqn.primitive.name == "run_scoped"
        for name, v in zip(scoped_names(eqn.params["jaxpr"], _names(call)), eqn.params["jaxpr"].invars, strict=True)
    )


def _names(call: Call) -> frozenset[str]:
    return frozenset(ref.name for ref in (*call.operands, *call.scratch))


@functools.lru_cache(maxsize=256)
def copies_by_hand(call: Call) -> bool:
    """Whether the kernel starts copies itself, besides those that its BlockSpecs ask for."""
    return any(eqn.primitive.name == "dma_start" for eqn in equations(call.kernel))
