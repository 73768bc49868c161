"""Which tiles of rows meet which groups: the list that the grid of a grouped product walks along.

Rows are sorted by group. A tile of them and a group that meet are a *visit*: a tile that lies in one group has one, a
tile that a border crosses has two or more, one after the other. The list is made by XLA, and read from SMEM.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Int32


class Visits(NamedTuple):
    """Of each visit its group and its tile; how many of the first are idle, and where in the rows each group begins.

    Rows past the last group are those of one more group, nobody's. There may be fewer visits than steps: those that are
    idle come first, and have the blocks of the first that is not, so nothing is copied for them. At the end they would
    stand between the last visit and the first of the next panel, whose copies need a visit to hide behind.
    """

    group: Int32[Array, " V"]
    tile: Int32[Array, " V"]
    idle: Int32[Array, "1"]
    bounds: Int32[Array, " B"]  # group e has the rows from bounds[e] to bounds[e + 1]


def visits(sizes: Int32[Array, " E"], rows: int, tile: int, *, empty_too: bool) -> Visits:
    """The visits of ``rows`` rows in tiles of ``tile``, by group and in it by tile.

    ``empty_too``: an empty group has a visit as well, for its gradient is zero and has to be written. Groups that
    would reach past the last row end there.
    """
    groups, tiles = sizes.shape[0], pl.cdiv(rows, tile)
    ends = jnp.minimum(jnp.cumsum(jnp.maximum(sizes, 0), dtype=jnp.int32), rows)
    bounds = jnp.concatenate([jnp.zeros(1, jnp.int32), ends, jnp.full(1, rows, jnp.int32)])
    starts, ends = bounds[:-1], bounds[1:]
    first = jnp.minimum(starts // tile, tiles - 1)
    met = jnp.where(ends > starts, (ends - 1) // tile - first + 1, int(empty_too)).astype(jnp.int32)
    most = tiles + groups  # each border inside a tile is one more visit, and so is each empty group
    group = jnp.repeat(jnp.arange(groups + 1, dtype=jnp.int32), met, total_repeat_length=most)
    idle = most - jnp.sum(met, dtype=jnp.int32)
    at = jnp.maximum(jnp.arange(most, dtype=jnp.int32) - idle, 0)
    group = group[at]
    before = jnp.cumsum(met, dtype=jnp.int32) - met
    return Visits(group, first[group] + at - before[group], idle[None], bounds)
