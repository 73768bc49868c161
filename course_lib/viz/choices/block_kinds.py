"""Blocks of attention scores: how many scores count in each, which need a mask, which a kernel skips, and in words."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from course_lib import text

FULL, PARTIAL, SKIPPED = "full", "partial", "skipped"


class Scores(NamedTuple):
    """Blocks of scores: numbers of queries and keys, and of a block; what the arguments allow."""

    queries: int
    keys: int
    bq: int
    bk: int
    window: int | None
    segments: tuple[int, ...]


def counted(scores: Scores, mask: str, apart: bool) -> np.ndarray:
    """Return how many scores count in each block, [blocks of queries, blocks of keys]; ``apart``: keep segments apart.

    Whatever the mask, the keys that a query sees are an interval.
    """
    q = np.arange(scores.queries)
    first, end = np.zeros_like(q), np.full_like(q, scores.keys)
    if mask != "none":
        end = q + 1
    if mask == "window":
        first = np.maximum(0, end - scores.window)
    if apart:
        edges = np.array([0, *itertools.accumulate(scores.segments)])
        own = np.searchsorted(edges, q, side="right")
        first, end = np.maximum(first, edges[own - 1]), np.minimum(end, edges[own])
    starts = np.arange(0, scores.keys, scores.bk)
    seen = np.minimum(end[:, None], starts + scores.bk) - np.maximum(first[:, None], starts)
    return np.add.reduceat(np.maximum(seen, 0), np.arange(0, scores.queries, scores.bq))


def kinds(scores: Scores, mask: str, apart: bool) -> list[list[str]]:
    """Return for each block whether it is full, partial or skipped. A block that reaches past the keys is not full."""
    rows = np.diff([*range(0, scores.queries, scores.bq), scores.queries])
    whole = rows[:, None] * scores.bk
    count = counted(scores, mask, apart)
    found = np.where(count == 0, SKIPPED, np.where(count == whole, FULL, PARTIAL))
    return found.tolist()


def said(scores: Scores, mask: str, apart: bool) -> str:
    """Describe the mask, the blocks of each kind, and what is left to compute, in sentences."""
    found = list(itertools.chain(*kinds(scores, mask, apart)))
    full, partial, skipped = (found.count(kind) for kind in (FULL, PARTIAL, SKIPPED))
    before = text.counted(scores.window - 1, "key") if scores.window else ""
    sees = {
        "none": "every key",
        "causal": "its own key and all keys before it",
        "window": f"its own key and the {before} before it" if (scores.window or 0) > 1 else "only its own key",
    }[mask]
    own = f" within its own document, one of {len(scores.segments)}" if apart else ""
    share = counted(scores, mask, apart).sum() / scores.queries / scores.keys
    past = scores.keys % scores.bk
    ragged = " The last block of keys reaches past the array, so it always needs a mask." if past else ""
    return (
        f"Each query sees {sees}{own}. Of {text.counted(len(found), 'block')}, {full} are full (no mask), {partial} "
        f"are partial (masked), and {skipped} are skipped (no matmul, no copy). So {left(found)} of the matmuls are "
        f"left, and {text.percent(share)} of the scores count.{ragged}"
    )


def left(found: Sequence[str]) -> str:
    """Return in percent how many of the blocks are not skipped."""
    return text.percent(1 - found.count(SKIPPED) / len(found))
