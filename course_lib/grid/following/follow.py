"""Queries about a kernel's body: what it does over its grid, what memory it touches or allocates, what it promises."""

import functools
from typing import NamedTuple

import numpy as np

from course_lib.grid.body import Body, Broken, Use
from course_lib.grid.call import Call, Scratch
from course_lib.grid.following.follower import Follower
from course_lib.grid.following.prepared import PROMISE
from course_lib.grid.following.refs import Ref, scoped_names, space_of
from course_lib.grid.jaxprs import equations
from course_lib.grid.unreadable import UnreadableCall


def body(call: Call) -> Body:
    """Return what a kernel's body does over its grid.

    All steps are followed at once, or one by one if a step leaves scalars for the next. Raises UnreadableCall if that
    would take more than three million evaluations.
    """
    return _followed(call, in_detail=False).body


def memory_uses(call: Call) -> tuple[Use, ...]:
    """Return where a kernel touches memory, in program order.

    Loops are followed one iteration at a time, even if all iterations do the same, which may take a thousand times as
    long as ``body``. Raises UnreadableCall for more than three million evaluations or more than 100,000 uses.
    """
    return _followed(call, in_detail=True).uses


def broken_promise(call: Call) -> Broken | None:
    """Return the first ``pl.multiple_of`` that does not hold; None if all whose values are known here do hold.

    Raises UnreadableCall where ``memory_uses`` does.
    """
    promises = any(eqn.primitive.name == PROMISE for eqn in equations(call.kernel))
    return _followed(call, in_detail=True).broken if promises else None


def prefetched_reads(call: Call) -> tuple[np.ndarray, ...]:
    """Return a bool array for each prefetched array: which of its elements the body reads, as far as is known.

    Raises UnreadableCall where ``body`` does.
    """
    return _followed(call, in_detail=False).read


def read_below_zero(call: Call) -> tuple[str, int] | None:
    """Return (name, index) of the first prefetched array that the body reads below index 0; None if none is known.

    Raises UnreadableCall where ``body`` does.
    """
    return next(((name, index) for name, index in _followed(call, in_detail=False).below if index < 0), None)


class _Followed(NamedTuple):
    body: Body
    uses: tuple[Use, ...]
    broken: Broken | None
    read: tuple[np.ndarray, ...]
    below: tuple[tuple[str, int], ...]


def _followed(call: Call, in_detail: bool) -> _Followed:
    outcome = _outcome(call, in_detail)
    if isinstance(outcome, UnreadableCall):
        raise outcome.with_traceback(None)
    return outcome


@functools.lru_cache(maxsize=128)
def _outcome(call: Call, in_detail: bool) -> _Followed | UnreadableCall:
    """Follow a body and cache the outcome, errors too: finding that a body is too long to follow may take seconds."""
    refs = _refs(call)
    try:
        follower = _follower_of_all_steps(call, refs, in_detail)
        unsure = follower.doubt or follower.hidden_copies or follower.stale
        if follower.stored and unsure and not follower.ordered:
            refs = _refs(call)
            follower = _follower_in_order(call, refs, in_detail)
    except UnreadableCall as error:
        return error.with_traceback(None)
    prefetched = refs[: len(call.scalars)]
    read, below = tuple(ref.read for ref in prefetched), tuple((ref.name, ref.below) for ref in prefetched)
    return _Followed(follower.result(), tuple(follower.uses or ()), follower.broken, read, below)


def _follower_of_all_steps(call: Call, refs: list, in_detail: bool) -> Follower:
    """Return a follower that has followed all steps at once."""
    if call.steps == 1:
        return _follower_in_order(call, refs, in_detail)
    coordinates = np.unravel_index(np.arange(call.steps), call.grid)
    follower = Follower(call.grid, tuple(np.asarray(c, np.int32) for c in coordinates), _names(call), in_detail)
    follower.jaxpr(call.kernel, refs, np.ones(call.steps, bool), 1)
    return follower


def _follower_in_order(call: Call, refs: list, in_detail: bool) -> Follower:
    """Return a follower that went step by step, keeping the scalars that one step leaves in SMEM for the next."""
    follower = Follower(call.grid, (), _names(call), in_detail, ordered=True)
    for step in range(call.steps):
        follower.coordinates, follower.first = call.step(step), step
        follower.jaxpr(call.kernel, refs, np.True_, 1)
    return follower


def index_values(jaxpr, coordinates: list, scalars: tuple) -> list:
    """Return an index map's outputs at the given grid coordinates; UNKNOWN if it does more than scalar arithmetic."""
    return _index_map(jaxpr, coordinates, scalars)[0]


def index_reads(jaxpr, coordinates: list, scalars: tuple) -> tuple[np.ndarray, ...]:
    """Return a bool array for each of ``scalars``: which of its elements an index map reads at the given steps."""
    return tuple(ref.read for ref in _index_map(jaxpr, coordinates, scalars)[1])


def _index_map(jaxpr, coordinates: list, scalars: tuple) -> tuple[list, list[Ref]]:
    refs = [Ref("scalars", "smem", v.aval) for v in jaxpr.invars[len(coordinates) :]]
    for ref, array in zip(refs, scalars, strict=True):
        ref.give(array)
    return Follower(grid=(), coordinates=()).jaxpr(jaxpr, [*coordinates, *refs], np.True_, 1), refs


def _refs(call: Call) -> list:
    names = [(o.name, o.memory_space) for o in call.operands] + [(s.name, s.memory_space) for s in call.scratch]
    refs = [Ref(name, space, v.aval) for (name, space), v in zip(names, call.kernel.invars, strict=True)]
    for ref, array in zip(refs, call.scalars, strict=False):
        ref.give(array)
    return refs


def scoped_scratch(call: Call) -> tuple[Scratch, ...]:
    """Return the refs that a kernel's body allocates for itself (pl.run_scoped, pl.kernel's scratch, emit_pipeline)."""
    return tuple(
        Scratch(name=name, memory_space=space_of(v.aval), shape=tuple(v.aval.shape), dtype=v.aval.dtype)
        for eqn in equations(call.kernel)
        if eqn.primitive.name == "run_scoped"
        for name, v in zip(scoped_names(eqn.params["jaxpr"], _names(call)), eqn.params["jaxpr"].invars, strict=True)
    )


def _names(call: Call) -> frozenset[str]:
    return frozenset(ref.name for ref in (*call.operands, *call.scratch))


@functools.lru_cache(maxsize=256)
def has_copies_by_hand(call: Call) -> bool:
    """Whether the kernel itself starts copies, besides those that its BlockSpecs ask for."""
    return any(eqn.primitive.name == "dma_start" for eqn in equations(call.kernel))
