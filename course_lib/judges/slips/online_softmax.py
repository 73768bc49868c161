"""Softmax block by block, as a kernel computes it, and its result with one slip in the recurrence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp

from course_lib.judges.slips.reference_softmax import LEAST

_CURE = "when a block raises the running maximum m, multiply l and acc by exp(m_old - m_new) before you add this block."


class Recurrence(NamedTuple):
    """The right update of m, l and acc from block to block; a slip changes one or two of these."""

    of_values: float = 1.0  # acc is multiplied by exp(of_values * (m_old - m_new))
    of_sum: float = 1.0  # the same for l
    stored: bool = True  # m is, for the next block
    running: bool = True  # m is the maximum of all blocks so far, not of one
    summed: bool = True  # l is carried from block to block
    divided: bool = False  # acc is divided by l after each block
    left_out: int | None = None  # a block
    values_late: bool = False  # acc is multiplied after this block was added, and not before
    sum_late: bool = False  # the same for l
    raw: bool = False  # the scores are multiplied by the values, and not their exponentials
    turned: bool = False  # each block of weights is transposed where it meets the values
    end: str = "/"  # acc / l; acc * l with "*", and acc alone with ""


def turned(x: jax.Array, side: int) -> jax.Array:
    """Return x (..., T, S) with each block of side x side transposed in its place."""
    *outer, rows, columns = x.shape
    blocks = x.reshape(*outer, rows // side, side, columns // side, side)
    return jnp.swapaxes(blocks, -3, -1).reshape(x.shape)


def weights(x: jax.Array, block: int, how: Recurrence) -> jax.Array:
    """Return the final weight of each value, for scores ``x`` (..., T) in blocks of ``block``."""
    x = jnp.maximum(x, LEAST)
    total, parts, m = 0.0, [], jnp.full_like(x[..., :1], LEAST)
    for number, start in enumerate(range(0, x.shape[-1], block)):
        part = x[..., start : start + block]
        largest = part.max(-1, keepdims=True)
        new = jnp.maximum(m, largest) if how.running else largest
        p = jnp.exp(part - new)
        p = jnp.zeros_like(p) if number == how.left_out else p
        of_sum, of_values = jnp.exp(how.of_sum * (m - new)), jnp.exp(how.of_values * (m - new))
        old = total if how.summed and number else 0.0
        of_block = p.sum(-1, keepdims=True)
        total = (old + of_block) * of_sum if how.sum_late else (old * of_sum if number else 0.0) + of_block
        meets = turned(p, block) if how.turned else part if how.raw else p
        parts = (
            [w * of_values for w in (*parts, meets)] if how.values_late else [w * of_values for w in parts] + [meets]
        )
        parts = [w / total for w in parts] if how.divided else parts
        m = new if how.stored and number != how.left_out else m
    whole = jnp.concatenate(parts, -1)
    return whole if how.divided or not how.end else whole * total if how.end == "*" else whole / total


def slips(block: int, blocks: int, depth: int | None, rows: int = 0) -> Iterator[tuple[Recurrence, str, str]]:
    """Yield (a wrong recurrence, its meaning, what to try), the likeliest first; ``rows``: queries, or 0."""
    whose = f"key block 0, keys 0 to {block - 1}," if blocks == 2 else f"each key block, of {block} keys,"
    stood = "as if the running maximum m had not moved since"
    yield Recurrence(of_values=0.0), f"{whose} counts in acc {stood}", _CURE
    yield Recurrence(of_sum=0.0), f"{whose} counts in l, the sum of exponentials, {stood}", _CURE
    yield Recurrence(of_values=0.0, of_sum=0.0), f"{whose} counts in l and in acc {stood}", _CURE
    yield from _too_late()  # at the first block they become 0: before what only makes them small
    yield from _turned_round()
    yield from _in_another_unit(depth)
    yield (
        Recurrence(stored=False),
        "the running maximum m is never stored: every block compares with the initial maximum, and exp(m_old - m_new) "
        "erases the sums so far",
        "carry m from block to block, like l and acc: at the end of each block, m = m_new.",
    )
    yield (
        Recurrence(of_values=0.0, of_sum=0.0, running=False),
        f"each key block (of {block}) takes exp(s - m) with its own maximum, so the terms do not fit together",
        "m_new = maximum(m_old, this block's); then " + _CURE,
    )
    yield (
        Recurrence(divided=True),
        "acc is divided by l after every block, so the next block is added to a quotient",
        "divide once, after the last block: o = acc / l.",
    )
    yield (
        Recurrence(summed=False),
        "l is the sum of exponentials of the last key block only",
        "l accumulates over the blocks: l = l * exp(m_old - m_new) + p.sum(...).",
    )
    for number, which in ((blocks - 1, "last"), (0, "first")):
        yield (
            Recurrence(left_out=number),
            f"the {which} key block, keys {number * block} and on, is left out"
            if number
            else f"the first key block, keys 0 to {block - 1}, is left out",
            "count the iterations of the loop over the keys: range(n) ends with n - 1, and T / block may have a "
            "remainder.",
        )
    yield from _around_the_sums()
    if depth and rows and rows % block == 0:
        yield (
            Recurrence(turned=True),
            "the weights are transposed: the matmul sums over the queries, axis 0 of p, not over the keys, axis 1",
            "p @ v: axis 1 of p with axis 0 of v.",
        )


def _around_the_sums() -> Iterator[tuple[Recurrence, str, str]]:
    yield Recurrence(end=""), "acc is not divided by l at the end", "after the last block, o = acc / l."
    yield Recurrence(end="*"), "acc is multiplied by l at the end, not divided", "o = acc / l."
    yield Recurrence(raw=True), "the scores, not their exponentials, are multiplied by the values", "acc + p @ v."


def _too_late() -> Iterator[tuple[Recurrence, str, str]]:
    for late, what in (
        ({"values_late", "sum_late"}, "acc and l are"),
        ({"values_late"}, "acc is"),
        ({"sum_late"}, "l is"),
    ):
        yield (
            Recurrence(**dict.fromkeys(late, True)),
            f"{what} multiplied by exp(m_old - m_new) after this block was added, but this block already uses the new "
            "m",
            "multiply the sum so far, and then add: acc * exp(m_old - m_new) + p @ v.",
        )


_WORDS = {  # of attention, and what they mean in any softmax
    r"\bl, the sum of exponentials,": "the sum of exponentials",
    r"\bl is the sum of exponentials": "the sum of exponentials is that",
    r"\bm (?=grows|began|from)": "the maximum ",
    r"\bl\b(?! =| \*)": "the sum of exponentials",
    r"\bl\b": "sum",
    r"\bm = m_new": "maximum = new",
    r"\bacc\b": "the weighted sum",
    r"\bmaximum m\b": "maximum",
    r"\bthe new m\b": "the new maximum",
    r"\(s - m\)": "(x - maximum)",
    r"\(s - (?=old|new|m_)": "(x - ",
    r"\bp @ v": "this block's",
    r"\bp\.sum\(\.\.\.\)": "this block's sum",
    r"\bT / block": "the length / block",
    r"\bkey block": "block",
    r"\bkeys (\d)": r"elements \1",
    r"\bkeys\b": "elements",
    r"\bm_(old|new)\b": r"\1",
}


def without_attention(words: str) -> str:
    """Return what a slip means without keys, l, m and acc, which only an attention kernel has."""
    for pattern, plain in _WORDS.items():
        words = re.sub(pattern, plain, words)
    return words


def _turned_round() -> Iterator[tuple[Recurrence, str, str]]:
    for sums, name in (({"of_values"}, "acc"), ({"of_sum"}, "l"), ({"of_values", "of_sum"}, "l and acc")):
        yield (
            Recurrence(**dict.fromkeys(sums, -1.0)),
            f"when m grows, {name} {'are' if 'and' in name else 'is'} multiplied by exp(m_new - m_old), which is "
            "above 1",
            "use exp(m_old - m_new) instead, which is at most 1.",
        )


def _in_another_unit(depth: int | None) -> Iterator[tuple[Recurrence, str, str]]:
    """Yield m_old - m_new in other units than the scores in the exponentials."""
    ln2 = math.log(2.0)
    units = [
        (ln2, "2 ** (m_old - m_new)", "exp(s - m)"),
        (1 / ln2, "exp(m_old - m_new)", "2 ** (s - m)"),
        (2.0, "exp(m_old - m_new) twice", "exp(s - m)"),
    ]
    if depth:
        root, raw = math.sqrt(depth), f"of scores that are not yet divided by sqrt({depth})"
        units += [
            (root, f"exp(m_old - m_new), with maxima {raw}", f"exp((s - m) / sqrt({depth}))"),
            (ln2 * root, f"2 ** (m_old - m_new), with maxima {raw}", f"exp((s - m) / sqrt({depth}))"),
            (1 / root, f"exp((m_old - m_new) / sqrt({depth}))", "exp(s - m)"),
        ]
    for unit, by, powers in units:
        for sums, name in (({"of_values", "of_sum"}, "l and acc"), ({"of_values"}, "acc"), ({"of_sum"}, "l")):
            yield (
                Recurrence(**dict.fromkeys(sums, unit)),
                f"{name} {'are' if 'and' in name else 'is'} multiplied by {by}, but the exponentials are {powers}",
                "both must use the same unit: the factor turns exp(s - m_old) into exp(s - m_new).",
            )
