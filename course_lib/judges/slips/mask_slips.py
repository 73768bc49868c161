"""Slips in the mask of a softmax: off by one, counted from a block, in whole blocks, too late, with 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.judges.slips import reference_softmax
from course_lib.judges.slips.reference_softmax import LEAST, Softmax

_POSITIONS = "a position is block * size + index within the block, for queries and for keys: i * bq + iota."


def slips(softmax: Softmax, args: tuple, blocks: set[int]) -> Iterator[tuple[str, str, Callable]]:
    """Yield (meaning, what to try, args -> what the reference returns with the slip in it)."""
    counts = reference_softmax.mask_of(softmax, args)
    if counts is None:
        return
    seen: list[np.ndarray] = [counts]
    for means, next_, other in _masks(counts, blocks):
        if any(np.array_equal(other, one) for one in seen):
            continue
        seen.append(other)
        yield means, next_, _masked(softmax, other, -jnp.inf)
        yield means, next_, _masked(softmax, other, LEAST)
    yield (
        "masked scores are 0, and exp(0 - m) counts",
        "a masked score must be far below every other, -1e30 say, before the maximum is taken.",
        _masked(softmax, counts, 0.0),
    )
    yield (
        "the exponentials are masked after they are summed, so l counts masked keys too",
        "mask the scores, with -1e30, before the maximum and the exponentials, so that they count nowhere.",
        _late(softmax, counts, of_sum=False),
    )
    yield (
        "l sums only what the mask lets through, but acc sums everything",
        "mask the scores, with -1e30, before the maximum and the exponentials, so that they count nowhere.",
        _late(softmax, counts, of_sum=True),
    )


def _masks(counts: np.ndarray, blocks: set[int]) -> Iterator[tuple[str, str, np.ndarray]]:
    yield "nothing is masked", "mask the scores before the maximum is taken.", np.ones_like(counts)
    yield "the mask is inverted: it hides what counts", "jnp.where(counts, s, -1e30).", ~counts
    if (counts == counts[..., :1, :]).all():
        yield from _lengths(counts, blocks)
    else:
        yield from _places(counts, blocks)


def _places(counts: np.ndarray, blocks: set[int]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield slips in a mask that compares the positions of queries and keys."""
    rows, keys = counts.shape[-2:]
    nobody, everybody = np.zeros_like(counts[..., :1, :]), np.ones_like(counts[..., :1, :])
    yield (
        "the mask is one key too narrow: a query does not see the key at its own position",
        "use key <= query, so that a query sees its own position; < hides it.",
        np.concatenate([nobody, counts[..., :-1, :]], -2),
    )
    yield (
        "the mask is one key too wide: a query sees the key after the last that it may see",
        "use key <= query, so that a query sees the keys up to its own position.",
        np.concatenate([counts[..., 1:, :], everybody], -2),
    )
    if rows == keys:
        yield (
            "queries and keys are swapped in the mask",
            "queries are the rows of the scores, and keys their columns: iota along axis 0, and along axis 1.",
            np.swapaxes(counts, -1, -2),
        )
    query, key = np.arange(rows), np.arange(keys)
    pairs = [(bq, bk) for bq in sorted(blocks) for bk in sorted(blocks) if bq < rows or bk < keys]
    for bq, bk in pairs:
        here = counts[..., query % bq, :][..., key % bk]
        yield (
            f"the mask compares indices within a block of {bq} queries and one of {bk} keys, not positions",
            _POSITIONS,
            here,
        )
    for bq in sorted(b for b in blocks if b < rows):
        what = f"the mask counts queries from the beginning of their block of {bq}, and keys from the first of all"
        yield what, _POSITIONS, counts[..., query % bq, :]
    for bk in sorted(b for b in blocks if b < keys):
        what = f"the mask counts keys from the beginning of their block of {bk}, and queries from the first of all"
        yield what, _POSITIONS, counts[..., key % bk]
    for bq, bk in pairs:
        if bq < rows and bk < keys:
            yield from _in_whole_blocks(counts, query // bq, key // bk, f"{bq} queries and {bk} keys")


def _lengths(counts: np.ndarray, blocks: set[int]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield slips in a mask that is the same for all queries and says where the keys end."""
    keys = counts.shape[-1]
    for block in sorted(b for b in blocks if b < keys):
        number = np.arange(keys) // block
        some, all_ = (
            np.stack([reach(counts[..., number == n], axis=-1) for n in range(number[-1] + 1)], -1)[..., number]
            for reach in (np.any, np.all)
        )
        yield (
            f"all of the partial last block of {block} keys count, including those past the end",
            "mask by position: block * size + index within the block < length.",
            some,
        )
        yield (
            f"the last block of {block} keys is left out if it is not full",
            "length // block counts whole blocks; pl.cdiv(length, block) counts the partial one, too.",
            all_,
        )
    one_more = np.concatenate([counts[..., :1], counts[..., :-1]], -1)
    one_less = np.concatenate([counts[..., 1:], np.zeros_like(counts[..., :1])], -1)
    yield "the key after the last one counts, too", "keys count from 0: those < length count.", one_more
    yield "the last key is left out", "keys count from 0: those < length count.", one_less


def _in_whole_blocks(counts: np.ndarray, query: np.ndarray, key: np.ndarray, of: str) -> Iterator[tuple]:
    """Yield masks cut in whole blocks; ``query`` and ``key`` are the block numbers."""

    def of_blocks(some: Callable) -> np.ndarray:
        rows = np.stack([some(counts[..., query == n, :], axis=-2) for n in range(query[-1] + 1)], -2)
        both = np.stack([some(rows[..., key == n], axis=-1) for n in range(key[-1] + 1)], -1)
        return both[..., query, :][..., key]

    any_, all_ = of_blocks(np.any), of_blocks(np.all)
    yield (
        f"the mask has block granularity: if some of {of} count, all of them do",
        "on the diagonal compare positions, key <= query, not block indices.",
        any_,
    )
    yield (
        f"blocks of {of} that the mask cuts through are left out",
        "such a block counts, with a mask: skip only blocks that are hidden entirely.",
        all_,
    )
    crossed = any_ & ~all_
    yield (
        f"only blocks of {of} that the mask cuts through count",
        "blocks that are visible entirely count, too: check on which side of the diagonal the condition skips.",
        counts & crossed,
    )


def _masked(softmax: Softmax, counts: np.ndarray, fill: float) -> Callable:
    """Return args -> what the reference returns if masked scores are ``fill``."""
    return lambda args: reference_softmax.outputs_with(
        softmax, args, jax.nn.softmax, lambda scores: jnp.where(counts, scores, fill)
    )


def _late(softmax: Softmax, counts: np.ndarray, *, of_sum: bool) -> Callable:
    """Return the same if the sums count all scores and the values only those in the mask, or the reverse."""

    def weights(x):
        p = jnp.exp(x - x.max(-1, keepdims=True))
        p, summed = (p, jnp.where(counts, p, 0)) if of_sum else (jnp.where(counts, p, 0), p)
        return p / summed.sum(-1, keepdims=True)

    return lambda args: reference_softmax.outputs_with(softmax, args, weights, lambda scores: scores)
