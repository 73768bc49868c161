"""Pools of pages with sequences in them, and what kernels compute from them, in plain JAX and float32."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import cost

PAGE, D = 16, 128  # tokens of a page, elements of a key and of a value
BEYOND = 7_777  # a number that no page has: what a table holds past the last page of a sequence


def pool(
    seed: int,
    lengths: tuple[int, ...],
    shape=(),
    *,
    columns: int = 0,
    beyond: int = BEYOND,
    stale=np.nan,
    spare: int = 2,
):
    """Return pages [N, *shape, PAGE, 2 * D], lengths and table, pages in random order, ``spare`` of them nobody's.

    Rows that belong to no token hold ``stale``. Where that is NaN, every other element is inf, because what is left of
    an old text need not be NaN. Past the last page of a sequence the table holds ``beyond``.
    """
    rng = np.random.default_rng(seed)
    counts = [-(-length // PAGE) for length in lengths]
    order = list(rng.permutation(sum(counts) + spare))
    pages = np.full((len(order), *shape, PAGE, 2 * D), stale, np.float32)
    pages[..., ::2] = np.inf if np.isnan(stale) else stale
    table = np.full((len(lengths), max(columns, *counts, 1)), beyond, np.int32)
    for b, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        for j in range(count):
            page, there = order.pop(), min(PAGE, length - j * PAGE)
            table[b, j] = page
            pages[page, ..., :there, :] = rng.uniform(-2, 2, (*shape, there, 2 * D))
    return jnp.array(pages), jnp.array(lengths, jnp.int32), jnp.array(table)


def queries(seed: int, *shape: int) -> jax.Array:
    """Return float32 values from -2 to 2, the same at every call."""
    return jnp.array(np.random.default_rng(100 + seed).uniform(-2, 2, shape), jnp.float32)


def rows_of(pages, table):
    """Return the rows of each sequence one after another, [B, *shape, M * PAGE, 2 * D], whatever they hold."""
    found = pages[jnp.clip(table, 0, len(pages) - 1)]  # [B, M, *shape, PAGE, 2 * D]
    found = jnp.moveaxis(found, 1, -3)
    return found.reshape(*found.shape[:-3], -1, found.shape[-1])


def kept(rows, lengths, replaced=0.0):
    """Return the rows of [B, *shape, T, 2 * D] that count, and ``replaced`` for the others."""
    there = jnp.arange(rows.shape[-2]) < lengths.reshape(-1, *[1] * (rows.ndim - 2))
    return jnp.where(there[..., None], rows, replaced)


def page_count(lengths):
    """Return how many pages sequences of these lengths have."""
    return -(-lengths // PAGE)


def in_a_row(pages, lengths, table):
    """Return the pages that there are, whole, and zeros past them."""
    return kept(rows_of(pages, table), page_count(lengths) * PAGE)


def bytes_in_a_row(pages, lengths, table) -> int:
    """Return the bytes of the pages that sequences have, of ``in_a_row``, and of the lists."""
    owned = pages[: int(page_count(lengths).sum())]
    return cost.stored_bytes(owned, in_a_row(pages, lengths, table), lengths, table)


def exchanged(rows):
    """Return rows with each key in the place of its value, and the reverse."""
    return jnp.roll(rows, D, axis=-1)


def without_maximum(q, rows, lengths):
    """Return attention of q [B, G, D] with exp(s) in place of exp(s - m)."""
    rows = kept(rows, lengths)
    there = jnp.arange(rows.shape[-2]) < lengths.reshape(-1, 1, 1)
    s = jnp.einsum("bgd,btd->bgt", q, rows[..., :D], precision="highest") / math.sqrt(D)
    p = jnp.where(there, jnp.exp(s), 0)
    o = jnp.einsum("bgt,btd->bgd", p, rows[..., D:], precision="highest") / p.sum(axis=-1, keepdims=True)
    return jnp.where((lengths > 0).reshape(-1, 1, 1), o, 0)


def of_row_0(reference: Callable) -> Callable:
    """Return what ``reference(pages, lengths, table)`` is if every sequence has row 0 of the table."""
    return lambda pages, lengths, table: reference(pages, lengths, jnp.broadcast_to(table[:1], table.shape))


def attention(q, rows, lengths, rounded=lambda p: p):
    """Return attention of q [B, ..., G, D] over the rows that count; zeros for a sequence without tokens.

    ``rounded`` is what happens to the exponentials before their matmul.
    """
    rows = kept(rows, lengths)
    there = jnp.arange(rows.shape[-2]) < lengths.reshape(-1, *[1] * (rows.ndim - 1))
    s = jnp.einsum("...gd,...td->...gt", q, rows[..., :D], precision="highest") / math.sqrt(D)
    s = jnp.where(there, s, -jnp.inf)
    m = s.max(axis=-1, keepdims=True)
    p = jnp.exp(s - jnp.where(jnp.isneginf(m), 0, m))
    total = p.sum(axis=-1, keepdims=True)
    return jnp.einsum("...gt,...td->...gd", rounded(p), rows[..., D:], precision="highest") / jnp.where(
        total == 0, 1, total
    )
