"""The scores of attention as tiles, and a tile as small products: which count, and in which order they are made.

A tile is what a grid step has in VMEM. Tiles differ in what is masked there: the diagonal, the edge of a window, the
end of the array. Each kind of tile is a program of its own, without branches, so that the compiler can weave its
products into one another.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Described, Ref
from course_lib.kernels.common.legal import LANES

MASKED = -1e30  # a score that does not count; -inf would make NaN of a row without any that does


class Kind(NamedTuple):
    """Tiles of one kind: how many queries and keys exist in it, and how far its queries are ahead of its keys.

    ``ahead`` is a number of positions, or None where every query of the tile sees every key.
    """

    ahead: int | None
    queries: int
    keys: int


class Task(NamedTuple):
    """A product within a tile: its queries, its keys, and whether some of its scores do not count by their place."""

    q0: int
    q1: int
    k0: int
    k1: int
    masked: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tiles:
    """S queries and T keys in tiles of bq queries and bk keys; with ``causal`` S is T, and bq is bk."""

    s: int
    t: int
    bq: int
    bk: int
    causal: bool
    window: int | None

    @classmethod
    def of(cls, q: Described, k: Described, tile: int, *, causal: bool, window: int | None) -> "Tiles":
        """Equal tiles of up to ``tile`` positions, as few as can be: of 2100 two of 1152, not 2048 and a few more."""
        s, t = q.shape[-2], k.shape[-2]
        bq, bk = (pl.cdiv(pl.cdiv(size, pl.cdiv(size, tile)), LANES) * LANES for size in (s, t))
        return cls(s=s, t=t, bq=bq, bk=bk, causal=causal, window=window)

    @property
    def rows(self) -> int:
        """Tiles from the first query to the last."""
        return pl.cdiv(self.s, self.bq)

    @property
    def columns(self) -> int:
        """Tiles from the first key to the last."""
        return pl.cdiv(self.t, self.bk)

    @property
    def span(self) -> int:
        """Tiles of keys, at most, that a tile of queries sees: and the other way round where ``causal``."""
        return self.columns if self.window is None else min(self.columns, pl.cdiv(self.window - 1, self.bk) + 1)

    def first(self, i):
        """The first tile of keys that tile i of queries sees."""
        return 0 if self.window is None else jnp.maximum(0, i - (self.span - 1))

    def kinds(self, *, ragged_queries: bool) -> Iterator[tuple[Kind, Callable]]:
        """Each kind of tile, and a function of (i, j) that tells whether a tile is of it: None where all are.

        ``ragged_queries``: whether those past the end make a kind, too.
        """
        found = set()
        for i in range(self.rows):
            first = 0 if self.window is None else max(0, i - (self.span - 1))
            for j in range(first, i + 1 if self.causal else self.columns):
                queries = min(self.bq, self.s - i * self.bq) if ragged_queries else self.bq
                found.add(Kind(self._ahead(i - j), queries, min(self.bk, self.t - j * self.bk)))
        for kind in sorted(found, key=str):
            yield kind, self._test(kind, found)

    def _ahead(self, tiles: int) -> int | None:
        ahead = tiles * self.bq
        return None if not self.causal or self._all_count(0, self.bq, 0, self.bk, ahead) else ahead

    def _all_count(self, q0: int, q1: int, k0: int, k1: int, ahead: int) -> bool:
        return k1 - 1 <= q0 + ahead and (self.window is None or k0 > q1 - 1 + ahead - self.window)

    def _some_count(self, q0: int, q1: int, k0: int, k1: int, ahead: int) -> bool:
        return k0 <= q1 - 1 + ahead and (self.window is None or k1 - 1 > q0 + ahead - self.window)

    def _test(self, kind: Kind, kinds: set[Kind]) -> Callable:
        def test(i, j):
            asked = [j <= i, i < self.rows] if self.causal and self.span > 1 else []
            distances = {other.ahead for other in kinds}
            if len(distances) > 1 and kind.ahead is None:
                asked += [i - j != ahead // self.bq for ahead in distances if ahead is not None]
            elif len(distances) > 1:
                asked.append(i - j == kind.ahead // self.bq)
            if len({other.queries for other in kinds}) > 1:
                asked.append(i == self.rows - 1 if kind.queries < self.bq else i < self.rows - 1)
            if len({other.keys for other in kinds}) > 1:
                asked.append(j == self.columns - 1 if kind.keys < self.bk else j < self.columns - 1)
            return functools.reduce(operator.and_, asked) if asked else None

        return test

    def tasks(self, kind: Kind, queries: int, keys: int) -> list[list[Task]]:
        """The products of a tile, of about ``queries`` x ``keys`` scores: a list for each block of queries."""
        return [list(self._tasks(kind, q0, min(q0 + queries, self.bq), keys)) for q0 in range(0, kind.queries, queries)]

    def _tasks(self, kind: Kind, q0: int, q1: int, keys: int) -> Iterator[Task]:
        first, end = 0, kind.keys
        if kind.ahead is not None:
            first, end = self.first_key(kind, q0), min(end, q1 + kind.ahead)
        first, end = max(0, first) // LANES * LANES, pl.cdiv(end, LANES) * LANES
        cuts = [*range(first, end, keys), end]
        if len(cuts) > 2 and cuts[-1] - cuts[-2] < keys:
            del cuts[-2]  # a short product joins its neighbour: alone it would fill the MXU badly
        for k0, k1 in zip(cuts[:-1], cuts[1:], strict=True):
            counts = kind.ahead is None or self._all_count(q0, q1, k0, k1, kind.ahead)
            yield Task(q0, q1, k0, k1, not counts)

    def pairs(self, kind: Kind, queries: int, keys: int) -> list[Task]:
        """The products of a tile, each of ``queries`` x ``keys`` scores or fewer, key by key."""
        found = []
        for k0 in range(0, kind.keys, keys):
            for q0 in range(0, kind.queries, queries):
                task = Task(q0, min(q0 + queries, self.bq), k0, min(k0 + keys, self.bk), False)
                if kind.ahead is None:
                    found.append(task)
                elif self._some_count(*task[:4], kind.ahead):
                    found.append(task._replace(masked=not self._all_count(*task[:4], kind.ahead)))
        return found

    def first_key(self, kind: Kind, query: int) -> int:
        """The first key that a query of the tile sees, by its place there; below 0 where it sees earlier tiles."""
        return -1 if kind.ahead is None or self.window is None else query + kind.ahead - self.window + 1

    def counts(self, kind: Kind, task: Task, shape: tuple[int, int], query_axis: int) -> Array:
        """Which scores of a ``masked`` task count, by their places."""
        query = task.q0 + kind.ahead + lax.broadcasted_iota(jnp.int32, shape, query_axis)
        key = task.k0 + lax.broadcasted_iota(jnp.int32, shape, 1 - query_axis)
        return key <= query if self.window is None else (key <= query) & (key > query - self.window)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chosen:
    """How a forward pass is cut up: tiles, products of queries x keys in one; whether positions lie in the lanes."""

    tiles: Tiles
    queries: int
    keys: int
    turned: bool
    heads: int  # at most, in a step
    vmem_bytes: int


def largest_tiles(dtype) -> tuple[int, ...]:
    """Positions of a tile, the best first. f32 is multiplied in several passes: smaller, or its program grows too long.

    A program of 2048 x 2048 scores is what the compiler takes seconds for, and twice as many kinds of tiles twice that.
    """
    return (2048, 1024, 512, 256) if dtype == jnp.bfloat16 else (1024, 512, 256)


def in_turns(blocks: list[list[Task]]) -> list[Task]:
    """All tasks; blocks of few and of many take turns, so that there is always one to overlap the other's waiting."""
    blocks = sorted((block for block in blocks if block), key=len)
    if not blocks or len(blocks[0]) == len(blocks[-1]):
        return [task for block in blocks for task in block]
    found, count = [], len(blocks)
    for short, long in zip(blocks[: (count + 1) // 2], reversed(blocks), strict=False):
        pair = [short] if short is long else [short, long]
        places = [(n / len(block), which, task) for which, block in enumerate(pair) for n, task in enumerate(block)]
        found += [task for _, _, task in sorted(places)]
    return found


def carried_to(carried: list[Ref], at: tuple[slice, ...], *, first: Array, is_first: bool) -> list[Array] | None:
    """m, l and acc that earlier tiles of keys left, as at the beginning in the ``first``; None where this ``is_first``.

    Chosen by a select, for a branch would be a wall.
    """
    if not carried or is_first:
        return None
    return [jnp.where(first, start, ref[at]) for ref, start in zip(carried, (MASKED, 0.0, 0.0), strict=True)]


def wide(x: Array, lanes: int) -> Array:
    """Rows of 128 equal lanes, as wide as ``lanes``."""
    return jnp.concatenate([x] * pl.cdiv(lanes, LANES), axis=1)[:, :lanes]
