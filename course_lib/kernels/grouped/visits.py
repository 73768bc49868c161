"""Which tiles of rows meet which groups: the list that the grid of a grouped product walks along.

Rows are sorted by group. A tile of them and a group that meet are a *visit*: a tile that lies in one group has one, a
tile that a border crosses has two or more, one after the other. The list is made by XLA, and read from SMEM.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from course_lib.arrays import Array, Int32, Ref
from course_lib.kernels.common.symbolic import is_known

_MOST = 250_000  # numbers that a v5e's scalar memory holds, by its compiler's word; all chips are held to that


class Visits(NamedTuple):
    """Of each visit its group and its tile; how many are idle, and where in the rows each group begins.

    Rows past the last group are those of one more group, nobody's. There may be fewer visits than steps. The idle ones
    come second: they already have what the next visit multiplies, and still the block that the first has written (see
    ``written``). So the copies of both hide behind visits. Before the first, or after the last, an idle step would wait
    for the result of one panel to leave, or for the operands of the next.
    """

    group: Int32[Array, " V"]
    tile: Int32[Array, " V"]
    idle: Int32[Array, "1"]
    bounds: Int32[Array, " B"]  # group e has the rows from bounds[e] to bounds[e + 1]


def is_idle(v, idle: Int32[Ref, "1"]):
    """Whether step ``v`` has no work."""
    return (v > 0) & (v <= idle[0])


def written(v, idle: Int32[Ref, "1"]):
    """The visit whose result is in VMEM at step ``v``: that visit, or the first while the idle ones pass."""
    return jnp.where(v <= idle[0], 0, v)


def ends_of(sizes: Int32[Array, " E"], rows: int) -> Int32[Array, " E"]:
    """Where in ``rows`` rows each group ends. A size below zero is zero, and no group reaches past the last row."""
    sizes = jnp.clip(sizes, 0, rows).astype(jnp.int32)
    if is_known(rows) and sizes.shape[0] * rows < 2**31:
        return jnp.minimum(jnp.cumsum(sizes, dtype=jnp.int32), rows)
    # Their sum might not fit into 32 bits: then each is cut off at once, by more operations.
    return lax.associative_scan(lambda x, y: jnp.minimum(x + y, rows), sizes)


def visits(sizes: Int32[Array, " E"], rows: int, tile: int, *, of_matrices: bool) -> Visits:
    """The visits of ``rows`` rows in tiles of ``tile``, by group and in it by tile.

    ``of_matrices``: for the gradient of each group's matrix. An empty group has a visit as well, for its gradient is
    zero and has to be written, and nobody's rows have none. Groups that would reach past the last row end there.
    Raises ValueError for more groups and tiles than scalar memory has room for.
    """
    groups, tiles = sizes.shape[0], pl.cdiv(rows, tile)
    if 2 * (tiles + groups) + groups > _MOST:
        raise ValueError(
            f"sizes has {groups} groups, and x {rows} rows, in tiles of {tile}; lists of them have "
            f"{2 * tiles + 3 * groups} numbers, and {_MOST} fit into the chip's scalar memory. Try several calls, each "
            "with some of the groups and their rows, and jnp.concatenate."
        )
    ends = ends_of(sizes, rows)
    bounds = jnp.concatenate([jnp.zeros(1, jnp.int32), ends, jnp.full(1, rows, jnp.int32)])
    starts, ends = bounds[:-1], bounds[1:]
    first = jnp.minimum(starts // tile, tiles - 1)
    met = jnp.where(ends > starts, (ends - 1) // tile - first + 1, int(of_matrices)).astype(jnp.int32)
    met = met.at[groups].set(0) if of_matrices else met
    most = tiles + groups  # each border inside a tile is one more visit, and so is each empty group
    group = jnp.repeat(jnp.arange(groups + 1, dtype=jnp.int32), met, total_repeat_length=most)
    idle = most - jnp.sum(met, dtype=jnp.int32)
    step = jnp.arange(most, dtype=jnp.int32)
    at = jnp.where(step == 0, 0, jnp.clip(step - idle, 1, most - idle - 1))
    group = group[at]
    before = jnp.cumsum(met, dtype=jnp.int32) - met
    return Visits(group, first[group] + at - before[group], idle[None], bounds)
