"""Sequences in pages for the tests of ``paged_attention``: NaN wherever no token is, and tables that point anywhere."""

import jax.numpy as jnp
import numpy as np

NOWHERE = 10**9  # in the table, past the end of a sequence


def case(lengths, *, heads=2, group=2, page=16, d=128, most=24, dtype="float32", large=1.0, int8=False):
    """q, pages, lengths, table, and scales of int8 pages: as ``paged_attention`` takes them."""
    rng, batch = np.random.default_rng(0), len(lengths)
    pages = np.full((batch * most + 3, heads, page, 2 * d), np.nan, np.float32)
    table = np.full((batch, most), NOWHERE)
    free = iter(rng.permutation(len(pages)))
    for b, length in enumerate(lengths):
        for i in range(-(-min(length, most * page) // page)):
            table[b, i] = next(free)
            rows = min(page, length - i * page)
            pages[table[b, i], :, :rows] = rng.normal(size=(heads, rows, 2 * d))
    q = jnp.asarray(rng.normal(size=(batch, heads * group, d)) * large, dtype)
    arrays = jnp.asarray(lengths, jnp.int32), jnp.asarray(table, jnp.int32)
    if not int8:
        return q, jnp.asarray(pages, dtype), *arrays
    scales = np.float32(rng.uniform(0.5, 2.0, (2, heads)) / 127 * 4)
    return q, jnp.asarray(np.clip(np.nan_to_num(pages / 4 * 127, nan=99.0), -127, 127), jnp.int8), *arrays, scales


def tokens(pages, table, length, d):
    """Keys and values of one sequence by hand, (length, KH, D) each."""
    page = pages.shape[2]
    rows = [np.float32(pages[table[t // page], :, t % page]) for t in range(length)]
    rows = np.stack(rows) if rows else np.zeros((0, pages.shape[1], 2 * d), np.float32)
    return rows[..., :d], rows[..., d:]
