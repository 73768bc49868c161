"""Rows in groups, the visits of their tiles, and what kernels compute from them, in plain JAX and float32."""

import jax
import jax.numpy as jnp
import numpy as np

TILE = 16  # rows


def values(seed: int, *shape: int) -> jax.Array:
    """Return float32 values from -2 to 2, the same at every call."""
    return jnp.array(np.random.default_rng(seed).uniform(-2, 2, shape), jnp.float32)


def bounds_of(sizes) -> np.ndarray:
    """Return where each group begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


def visits_of(sizes, rows: int, tile: int, *, empty: bool) -> list[tuple[int, int]]:
    """Return (group, tile) of each visit; ``empty``: a group without rows has one, of the tile where it would begin."""
    bounds, last = bounds_of(sizes), rows // tile - 1
    return [
        (e, n)
        for e, (start, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
        for n in (range(start // tile, -(-end // tile)) if end > start else [min(start // tile, last)] * empty)
    ]


def lists(sizes, rows: int, *, empty: bool = False, tile: int = TILE) -> tuple[jax.Array, ...]:
    """Return group and tile of each visit, padded with the last, bounds, and how many visits count, as int32."""
    found = visits_of(sizes, rows, tile, empty=empty)
    padded = found + found[-1:] * (rows // tile + len(sizes) - 1 - len(found))
    group, tiles = np.array(padded, np.int32).T
    return (
        jnp.array(group),
        jnp.array(tiles),
        jnp.array(bounds_of(sizes), jnp.int32),
        jnp.array([len(found)], jnp.int32),
    )


def from_visits(products, group, tile, bounds, count, across: bool = False):
    """Return [T, N] where the first row of a tile is counted as that of tile v, the number of the visit.

    ``across``: each column is counted in place of a row, from the tile's first row on. ``products`` is [E, T, N]:
    every row with every matrix. Rows that no visit writes are NaN.
    """
    row, group, tiles, bounds = np.arange(TILE), *map(np.asarray, (group, tile, bounds))
    o = np.full(products.shape[1:], np.nan, np.float32)
    for v, (e, n) in enumerate(zip(group, tiles, strict=True)):
        part = slice(TILE * n, TILE * (n + 1))
        counted = TILE * n + np.arange(o.shape[1])[None] if across else (TILE * v + row)[:, None]
        marked = (counted >= bounds[e]) & (counted < bounds[e + 1])
        o[part] = np.where(marked, np.asarray(products[e, part]), o[part])
    return jnp.array(o)


def by_each(x, w):
    """Return every row with every matrix, [E, T, N]."""
    return jnp.einsum("tk,ekn->etn", x, w, precision="highest")


def mine(bounds, rows: int):
    """Return 1.0 where row t belongs to group e, [E, T]."""
    row = jnp.arange(rows)[None]
    return ((row >= bounds[:-1, None]) & (row < bounds[1:, None])).astype(jnp.float32)


def grouped(x, w, bounds):
    """Return the grouped matmul of x [T, K] and w [E, K, N]; zeros for the rows of no group."""
    row = jnp.arange(len(x))
    own = w[jnp.minimum(jnp.searchsorted(bounds[1:], row, side="right"), len(w) - 1)]  # of each row: NaN stays in its
    return jnp.where(row[:, None] < bounds[len(w)], jnp.einsum("tk,tkn->tn", x, own, precision="highest"), 0)


def gradient(x, g, bounds):
    """Return x_e.T @ g_e for each group e; zeros for a group without rows."""
    there = jnp.arange(len(x))[:, None] < bounds[-1]
    x, g = jnp.where(there, x, 0), jnp.where(there, g, 0)
    return jnp.einsum("et,tk,tn->ekn", mine(bounds, len(x)), x, g, precision="highest")
