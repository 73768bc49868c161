"""Grouped products: each group of rows times a matrix of its own. Tiles are shared where a border crosses them.

The grid goes through visits, pairs of a group and a tile that meet; which they are is looked up in prefetched lists.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from zoo.arrays import normal
from zoo.bug import Bug

TILE = 16
HIGHEST = lax.Precision.HIGHEST


def visits(sizes, bounds_of=lambda ends: np.concatenate([[0], ends])):
    """(group, tile) of each visit, and where each group begins and ends."""
    bounds = bounds_of(np.cumsum(sizes))
    met = [(g, t) for g in range(len(sizes)) for t in range(bounds[g] // TILE, max(1, -(-bounds[g + 1] // TILE)))]
    group, tile = np.array(met, np.int32).T
    return group, tile, bounds.astype(np.int32)


def merged(row, start, new, old):
    return jnp.where(row >= start, new, old)


def overwritten(row, start, new, old):
    return new


def added(row, start, new, old):
    return jnp.where(row >= start, new, 0) + old


def in_the_tile(start, tile):
    return start - tile * TILE


def in_all_rows(start, tile):
    return start


def grouped(x, w, group, tile, bounds, together=merged, local=in_the_tile, matrix=lambda v, group, tile: group[v]):
    """Rows bounds[e] to bounds[e + 1] of x times w[e]."""

    def grouped_kernel(group_ref, tile_ref, bounds_ref, x_ref, w_ref, o_ref):
        v = pl.program_id(0)
        start = local(bounds_ref[group_ref[v]], tile_ref[v])
        new = jnp.dot(x_ref[...], w_ref[0], precision=HIGHEST)
        row = lax.broadcasted_iota(jnp.int32, new.shape, 0)

        @pl.when(start <= 0)
        def _first():
            o_ref[...] = new

        @pl.when(start > 0)
        def _shared():
            o_ref[...] = together(row, start, new, o_ref[...])

    return pl.pallas_call(
        grouped_kernel,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[2]), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(group.shape[0],),
            in_specs=[
                pl.BlockSpec((TILE, x.shape[1]), lambda v, group, tile, bounds: (tile[v], 0)),
                pl.BlockSpec((1, *w.shape[1:]), lambda v, group, tile, bounds: (matrix(v, group, tile), 0, 0)),
            ],
            out_specs=pl.BlockSpec((TILE, w.shape[2]), lambda v, group, tile, bounds: (tile[v], 0)),
        ),
    )(group, tile, bounds, x, w)


def grouped_in_jax(x, w, group, tile, bounds):
    rows = jnp.arange(x.shape[0])[:, None]
    products = jnp.einsum("tk,ekn->etn", x, w, precision=HIGHEST)
    seen = [(rows >= start) & (rows < end) for start, end in zip(bounds[:-1], bounds[1:], strict=True)]
    return sum(jnp.where(mine, product, 0) for mine, product in zip(seen, products, strict=True))


def begins(v, group):
    return (v == 0) | (group[jnp.maximum(v - 1, 0)] != group[v])


def begins_once(v, group):
    return v == 0


def both(x, g, mine):
    return jnp.where(mine, x, 0), jnp.where(mine, g, 0)


def neither(x, g, mine):
    return x, g


def gradients(x, g, group, tile, bounds, starts=begins, masked=both):
    """x[rows of e].T @ g[rows of e] for each group e."""

    def gradient_kernel(group_ref, tile_ref, bounds_ref, x_ref, g_ref, o_ref, acc_ref):
        v = pl.program_id(0)
        e, first = group_ref[v], tile_ref[v] * TILE

        @pl.when(starts(v, group_ref))
        def _start():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        row = first + lax.broadcasted_iota(jnp.int32, (TILE, 1), 0)
        x, g = masked(x_ref[...], g_ref[...], (row >= bounds_ref[e]) & (row < bounds_ref[e + 1]))
        acc_ref[...] += jnp.dot(x.T, g, precision=HIGHEST)
        o_ref[0] = acc_ref[...]

    k, n, groups = x.shape[1], g.shape[1], bounds.shape[0] - 1
    return pl.pallas_call(
        gradient_kernel,
        out_shape=jax.ShapeDtypeStruct((groups, k, n), x.dtype),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(group.shape[0],),
            in_specs=[
                pl.BlockSpec((TILE, k), lambda v, group, tile, bounds: (tile[v], 0)),
                pl.BlockSpec((TILE, n), lambda v, group, tile, bounds: (tile[v], 0)),
            ],
            out_specs=pl.BlockSpec((1, k, n), lambda v, group, tile, bounds: (group[v], 0, 0)),
            scratch_shapes=[pltpu.VMEM((k, n), jnp.float32)],
        ),
    )(group, tile, bounds, x, g)


def gradients_in_jax(x, g, group, tile, bounds):
    rows = jnp.arange(x.shape[0])[:, None]
    seen = [(rows >= start) & (rows < end) for start, end in zip(bounds[:-1], bounds[1:], strict=True)]
    pairs = [[jnp.where(mine, a, 0) for a in (x, g)] for mine in seen]
    return jnp.stack([jnp.dot(mine.T, of_g, precision=HIGHEST) for mine, of_g in pairs])


SIZES = (20, 24, 20)
X, W, G = normal(64, 128, seed=1), normal(3, 128, 128, seed=2), normal(64, 128, seed=3)
LISTS = visits(SIZES)
WITH_EMPTY = visits((20, 0, 44))
WITHOUT_VISIT = [lists[[n for n, group in enumerate(WITH_EMPTY[0]) if group != 1]] for lists in WITH_EMPTY[:2]]

BUGS = tuple(
    Bug(kind="grouped products", name=name, fn=fn, reference=reference, args=args, caught_by="numbers", says=says)
    for name, fn, reference, args, says in (
        (
            "a tile overwrites its neighbour",
            partial(grouped, together=overwritten),
            grouped_in_jax,
            (X, W, *LISTS),
            r"Steps \(1,\) to \(2,\) share this block, .* only what step \(2,\) computes remains: rows 0 to 3",
        ),
        (
            "a shared tile is added up",
            partial(grouped, together=added),
            grouped_in_jax,
            (X, W, *LISTS),
            r"depends on w\[0, :, :\], but should not",
        ),
        (
            "rows of a tile taken for rows of x",
            partial(grouped, local=in_all_rows),
            grouped_in_jax,
            (X, W, *LISTS),
            r"should depend on w\[1, :, :\], but does not\. It depends on w\[0, :, :\] instead",
        ),
        (
            "the matrix of the tile's number",
            partial(grouped, matrix=lambda v, group, tile: jnp.minimum(tile[v], 2)),
            grouped_in_jax,
            (X, W, *LISTS),
            r"needs block \(0, 0, 0\) of w_ref, but the 2 steps",
        ),
        (
            "sum goes on to the next group",
            partial(gradients, starts=begins_once),
            gradients_in_jax,
            (X, G, *LISTS),
            r"At step \(2,\), where a new output block begins, acc_ref still holds what step \(1,\) left",
        ),
        (
            "rows of the neighbour in the gradient",
            partial(gradients, masked=neither),
            gradients_in_jax,
            (X, G, *LISTS),
            r"depends on x\[20:32, :\], but should not",
        ),
        (
            "gradient of an empty group",
            gradients,
            gradients_in_jax,
            (X, G, *WITHOUT_VISIT, WITH_EMPTY[2]),
            r"looks blocks up in group_ref .*no entry points to this one(?s:.*)an empty block needs an entry",
        ),
    )
)
