"""Tiles of scores for sequences of any length, with windows and segments.

Tiles differ in what is masked: the diagonal, the edge of a window, the end of an array. Each kind of tile is a program
of its own, without branches, so that the compiler can overlap its products.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Bool, Described, Ref
from course_lib.kernels.attention.scores import Scores
from course_lib.kernels.attention.tiles import Tiles, wide
from course_lib.kernels.common.legal import LANES
from course_lib.kernels.common.products import zero_beyond

Product = tuple[slice, slice]  # of which queries and which keys of a tile


class Kind(NamedTuple):
    """What tiles have in common: how many queries and keys exist, and how far the queries are ahead of the keys.

    ``ahead`` is a number of positions, or None if every query of the tile sees every key.
    """

    ahead: int | None
    queries: int
    keys: int


class RaggedTiles(Tiles):
    """The tiles of q and k; in those of the ``gradient`` queries past the end are masked, too, and keys come first."""

    def __init__(
        self, q: Described, k: Described, tile: int, bq: int, bk: int, *, scores: Scores, gradient: bool = False
    ):
        super().__init__(q.shape[-2], k.shape[-2], tile, bq, bk, scores.causal)
        self.s, self.window, self.gradient = q.shape[-2], scores.window, gradient
        if self.window is not None:
            self.span = min(self.columns, pl.cdiv(self.window - 1, self.bk) + 1)

    def _first(self, i: Array) -> Array | int:
        """Return the first tile of keys that tile i of queries sees."""
        return 0 if self.window is None else jnp.maximum(0, i - (self.span - 1))

    def seen(self, i: Array, j: Array) -> Array:
        """Return the tile of keys of step (i, j): one that is skipped is the last one again, which is no copy."""
        j = self._first(i) + j
        return jnp.minimum(i, j) if self.causal else j

    def of_segments(self, heads: int, each: int) -> list[pl.BlockSpec]:
        """Return the specs of segments, of queries and of keys: a row is for ``each`` heads, a step takes ``heads``."""

        def spec(block, at):
            if self.gradient:  # the grid is (n, j, h, i)
                return pl.BlockSpec((1, 1, block), lambda n, j, h, i: (n * heads // each, 0, at(i, j)))
            return pl.BlockSpec((1, 1, block), lambda n, h, i, j: (n * heads // each, 0, at(i, j)))

        if self.gradient:
            seeing = lambda i, j: jnp.minimum(j + i, self.rows - 1) if self.causal else i  # noqa: E731
            return [spec(self.bq, seeing), spec(self.bk, lambda i, j: j)]
        return [spec(self.bq, lambda i, j: i), spec(self.bk, self.seen)]

    def for_each_kind(self, i: Array, j: Array) -> Callable:
        """Decorate the program of tile (i, j), given its kind and j: it is run for the kind that the tile is of."""
        j = j if self.gradient else self._first(i) + j
        kinds = self._kinds()
        aheads, queries, keys = ({kind[n] for kind in kinds} for n in range(3))

        def run(program: Callable) -> None:
            for kind in sorted(kinds, key=str):
                asked = [j <= i, i < self.rows] if self.causal and self.span > 1 else []
                if len(aheads) > 1 and kind.ahead is None:
                    asked += [i - j != ahead // self.bq for ahead in aheads if ahead is not None]
                elif len(aheads) > 1:
                    asked.append(i - j == kind.ahead // self.bq)
                if len(queries) > 1:
                    asked.append(i == self.rows - 1 if kind.queries < self.bq else i < self.rows - 1)
                if len(keys) > 1:
                    asked.append(j == self.columns - 1 if kind.keys < self.bk else j < self.columns - 1)
                of_kind = functools.partial(program, kind, j)
                pl.when(functools.reduce(operator.and_, asked))(of_kind) if asked else of_kind()

        return run

    def _kinds(self) -> set[Kind]:
        """Return all kinds of tiles that some query sees."""
        found = set()
        for row, column in itertools.product(range(self.rows), range(self.columns)):
            ahead = (row - column) * self.bq if self.causal else None
            every, some = self._is_counted(ahead, slice(0, self.bq), slice(0, self.bk))
            queries = min(self.bq, self.s - row * self.bq) if self.gradient else self.bq
            if some:
                found.add(Kind(None if every else ahead, queries, min(self.bk, self.t - column * self.bk)))
        return found

    def _is_counted(self, ahead: int | None, queries: slice, keys: slice) -> tuple[bool, bool]:
        """Return whether all of these scores count by their place, and whether any does."""
        if ahead is None:
            return True, True
        nearest, farthest = queries.start + ahead - (keys.stop - 1), queries.stop - 1 + ahead - keys.start
        reach = math.inf if self.window is None else self.window
        return nearest >= 0 and farthest < reach, farthest >= 0 and nearest < reach

    def _first_key(self, kind: Kind, query: int) -> int:
        """Return the place in the tile of the first key that a query sees; below 0 if it sees earlier tiles."""
        return -1 if kind.ahead is None or self.window is None else query + kind.ahead - self.window + 1

    def has_earlier(self, kind: Kind, queries: slice) -> bool:
        """Whether the first of these queries may see earlier tiles of keys."""
        return self._first_key(kind, queries.start) < 0

    def existing_queries(self, rows: Array, kind: Kind, queries: slice, axis: int = 0) -> Array:
        """Return rows of queries with zeros past the end of the array."""
        return zero_beyond(rows, axis, kind.queries - queries.start) if queries.stop > kind.queries else rows

    def existing_keys(self, rows: Array, kind: Kind, keys: slice, axis: int = 0) -> Array:
        """Return rows of keys with zeros past the end: there may be NaN, and zero times NaN is NaN."""
        return zero_beyond(rows, axis, kind.keys - keys.start) if keys.stop > kind.keys else rows

    def count(self, kind: Kind, queries: slice) -> int:
        """Return how many of these queries exist."""
        return min(queries.stop, kind.queries) - queries.start

    def tasks(self, kind: Kind) -> list[Product]:
        """Return the products of a tile, in the order in which they are computed."""
        return self._key_by_key(kind) if self.gradient else _alternating(self._query_by_query(kind))

    def _key_by_key(self, kind: Kind) -> list[Product]:
        places = itertools.product(range(0, kind.keys, self.keys), range(0, kind.queries, self.queries))
        found = [(slice(q, min(q + self.queries, self.bq)), slice(k, min(k + self.keys, self.bk))) for k, q in places]
        return [product for product in found if self._is_counted(kind.ahead, *product)[1]]

    def _query_by_query(self, kind: Kind) -> list[list[Product]]:
        """Return a list for each block of queries; rounded to registers, and never with a key that no query sees."""
        blocks = []
        for q0 in range(0, kind.queries, self.queries):
            q, first, end = slice(q0, min(q0 + self.queries, self.bq)), 0, kind.keys
            if kind.ahead is not None:
                first, end = max(0, self._first_key(kind, q0)), min(end, q.stop + kind.ahead)
            first, end = first // LANES * LANES, pl.cdiv(end, LANES) * LANES
            cuts = [*range(first, end, self.keys), end]
            if len(cuts) > 2 and cuts[-1] - cuts[-2] < self.keys:
                del cuts[-2]  # a short product joins its neighbor: alone it would fill the MXU badly
            blocks.append([(q, slice(*k)) for k in itertools.pairwise(cuts)])
        return blocks

    def counts(
        self, kind: Kind, queries: slice, keys: slice, query_axis: int, ids: tuple[Ref, ...]
    ) -> Iterator[Bool[Array, "_ _"]]:
        """Yield conditions for scores of a product to count, the queries along an axis; ``ids`` of segments, if any."""
        shape = (queries.stop - queries.start, keys.stop - keys.start)[:: 1 - 2 * query_axis]
        query, key = (
            functools.partial(lax.broadcasted_iota, jnp.int32, shape, n) for n in (query_axis, 1 - query_axis)
        )
        if not self._is_counted(kind.ahead, queries, keys)[0]:
            q, k = queries.start + kind.ahead + query(), keys.start + key()
            yield k <= q if self.window is None else (k <= q) & (k > q - self.window)
        if ids:
            down, across = (lambda: ids[0][0, :, queries], lambda: ids[1][0, :, keys])[:: 1 - 2 * query_axis]
            column = jnp.broadcast_to(down(), (LANES, shape[0])).T  # in all lanes
            yield wide(column, shape[1]) == across()
        if keys.stop > kind.keys:
            yield key() < kind.keys - keys.start
        if queries.stop > kind.queries:
            yield query() < kind.queries - queries.start


def _alternating(blocks: list[list[Product]]) -> list[Product]:
    """Return all products; short and long blocks alternate, so that there is always one to overlap another's wait.

    Blocks of equally many products go from the last to the first. If they are causal, the small ones come last: 4 heads
    of 1024 took 14,886 cycles so, and 15,636 in the other order, predicted (compiler) for a v5e.
    """
    blocks = sorted(filter(None, blocks), key=len)
    if not blocks or len(blocks[0]) == len(blocks[-1]):
        return [product for block in reversed(blocks) for product in block]
    found = []
    for short, long in zip(blocks[: (len(blocks) + 1) // 2], reversed(blocks), strict=False):
        pair = [short] if short is long else [short, long]
        places = [
            (n / len(block), which, product) for which, block in enumerate(pair) for n, product in enumerate(block)
        ]
        found += [product for _, _, product in sorted(places, key=operator.itemgetter(0, 1))]
    return found
