"""The scores of attention as tiles, and a tile as small products, for sequences that are padded to whole tiles.

A tile is what a grid step has in VMEM. ``ragged_tiles`` has those of any length, of windows and of segments.
"""

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Array
from course_lib.kernels.common.legal import LANES

MASKED = -1e30  # a score that does not count; -inf would make a row without any that does NaN


class Tiles:
    """Tiles of up to ``tile`` queries and keys, in products of bq x bk scores."""

    has_earlier = staticmethod(lambda kind, queries: True)  # whether earlier tiles of keys count for some queries
    existing_queries = existing_keys = staticmethod(lambda rows, kind, at, axis=0: rows)  # none lie past the end
    count = staticmethod(lambda kind, queries: queries.stop - queries.start)  # of those that exist

    def __init__(self, s, t, tile, bq, bk, causal):
        self.t, self.causal = t, causal
        # Equal tiles, as few as possible: 2100 positions are two tiles of 1152, not one of 2048 and a small one.
        self.bq, self.bk = (pl.cdiv(pl.cdiv(size, pl.cdiv(size, tile)), LANES) * LANES for size in (s, t))
        self.rows, self.columns = pl.cdiv(s, self.bq), pl.cdiv(t, self.bk)
        self.span = self.columns  # the most tiles of keys that a tile of queries sees
        self.queries, self.keys = min(bq, self.bq), min(bk, self.bk)  # of a product

    def seen(self, i, j):
        """Return the tile of keys of step (i, j): one that is skipped is the last one again, which is no copy."""
        return jnp.minimum(i, j) if self.causal else j

    def for_each_kind(self, i, j):
        """Decorate the program of tile (i, j), given its kind: on the diagonal or not, and how many keys exist."""

        def run(program):
            left = self.t - j * self.bk if self.t % self.bk and not self.causal else None  # None: all
            if not self.causal or self.span == 1:
                return program((self.causal, left), j)
            pl.when(i == j)(lambda: program((True, left), j))
            pl.when((j < i) & (i < self.rows))(lambda: program((False, left), j))

        return run

    def tasks(self, kind):
        """Return the products of a tile, the last queries first: the queries and the keys of each, as slices."""
        found, (is_diagonal, _) = [], kind
        for queries in (slice(q, min(q + self.queries, self.bq)) for q in reversed(range(0, self.bq, self.queries))):
            end = queries.stop if is_diagonal else self.bk
            found += [(queries, slice(k, min(k + self.keys, end))) for k in range(0, end, self.keys)]
        return found

    def counts(self, kind, queries, keys, query_axis, ids):
        """Yield conditions for scores of a product to count, the queries along an axis."""
        (is_diagonal, left), at = kind, (queries, keys)[:: 1 - 2 * query_axis]
        shape = [x.stop - x.start for x in at]
        places = [x.start + lax.broadcasted_iota(jnp.int32, shape, axis) for axis, x in enumerate(at)]
        query, key = places[:: 1 - 2 * query_axis]
        if is_diagonal and keys.stop > queries.start:
            yield key <= query
        if left is not None:
            yield key < left


def wide(x: Array, lanes: int) -> Array:
    """Return rows of 128 equal lanes as rows of ``lanes`` such lanes."""
    return jnp.concatenate([x] * pl.cdiv(lanes, LANES), axis=1)[:, :lanes]
