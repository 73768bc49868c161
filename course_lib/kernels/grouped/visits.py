"""The visits that the grid of a grouped product walks along: which tiles of rows meet which groups.

Rows are sorted by group. A tile of rows and a group that meet are a *visit*: a tile inside one group has one visit, a
tile that several groups share has one for each, one after the other. XLA makes the list; the kernel reads it from SMEM.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Int32, Ref


class Visits(NamedTuple):
    """The group and the tile of each visit, how many steps are idle, and where each group begins.

    Rows past the last group belong to one more group, nobody's. There may be fewer visits than steps, and then the
    idle steps follow the first visit: they already load the operands of the next visit, and the output block of the
    first stays until they have passed. So both copies overlap with work, which they would not at the end of a panel.
    """

    group: Int32[Array | Ref, " V"]
    tile: Int32[Array | Ref, " V"]
    idle: Int32[Array | Ref, "1"]
    bounds: Int32[Array | Ref, " B"]  # group e has the rows from bounds[e] to bounds[e + 1]

    def is_idle(self, v):
        """Whether step ``v`` has no work."""
        return (v > 0) & (v <= self.idle[0])

    def written(self, v):
        """Return the visit whose output block is in VMEM at step ``v``: v, or the first while steps are idle."""
        return jnp.where(v <= self.idle[0], 0, v)

    def rows_of(self, v, rows: int):
        """Return the group of visit ``v``, and where its rows begin and end, counted from the tile's first row."""
        group, first = self.group[v], self.tile[v] * rows
        return group, self.bounds[group] - first, self.bounds[group + 1] - first


def ends_of(sizes: Int32[Array, " E"], rows: int) -> Int32[Array, " E"]:
    """Return where each group ends: a negative size counts as 0, and no group reaches past the last of ``rows``."""
    sizes = jnp.clip(sizes, 0, rows).astype(jnp.int32)
    if isinstance(rows, int) and sizes.shape[0] * rows < 2**31:
        return jnp.minimum(jnp.cumsum(sizes, dtype=jnp.int32), rows)
    # The sum might not fit into 32 bits, so each partial sum is limited at once, which takes more operations.
    return lax.associative_scan(lambda x, y: jnp.minimum(x + y, rows), sizes)


def visits_of(sizes: Int32[Array, " E"], rows: int, tile: int, *, of_matrices: bool) -> Visits:
    """Return the visits of ``rows`` rows in tiles of ``tile``, sorted; ``of_matrices``: for the gradient of w."""
    groups, tiles, ends = sizes.shape[0], pl.cdiv(rows, tile), ends_of(sizes, rows)
    bounds = jnp.concatenate([jnp.zeros(1, jnp.int32), ends, jnp.full(1, rows, jnp.int32)])
    starts, ends = bounds[:-1], bounds[1:]
    first = jnp.minimum(starts // tile, tiles - 1)
    met = jnp.where(ends > starts, (ends - 1) // tile - first + 1, int(of_matrices)).astype(jnp.int32)
    met = met.at[groups].set(0) if of_matrices else met  # nobody has no matrix, and an empty group's is written
    most = tiles + groups  # each group that begins inside a tile adds a visit, and so does each empty one
    group = jnp.repeat(jnp.arange(groups + 1, dtype=jnp.int32), met, total_repeat_length=most)
    idle = most - jnp.sum(met, dtype=jnp.int32)
    step = jnp.arange(most, dtype=jnp.int32)
    at = jnp.where(step == 0, 0, jnp.clip(step - idle, 1, most - idle - 1))
    group = group[at]
    before = jnp.cumsum(met, dtype=jnp.int32) - met
    return Visits(group, first[group] + at - before[group], idle[None], bounds)
