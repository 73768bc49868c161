"""Attention over the tokens of one page that is not full."""

import math

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_14 import pages as of


def _cases() -> list[tuple]:
    """Return pages with 5, 11, 16 and 1 tokens; behind them numbers, and then NaN; scores far below 0 in the last."""
    cases = []
    for seed, left in enumerate((5, 11, 16, 1)):
        pages, lengths, table = of.pool(seed, (left,), stale=jnp.nan if seed else 0.5)
        page = pages[table[0, 0]]
        cases.append((of.queries(seed, 4, of.D), page, lengths))
    q, page, lengths = cases[1]
    return [*cases, (abs(q) + 1, page.at[:, : of.D].add(-8), lengths)]


def _last_page(q, page, left):
    return of.attention(q[None], page[None], left)[0]


def _with(counted):
    def value(q, page, left):
        page = jnp.where(jnp.isfinite(page), page, 0)
        s = jnp.einsum("gd,td->gt", q, page[:, : of.D], precision="highest") / math.sqrt(of.D)
        return counted(s, of.kept(page[None, :, of.D :], left)[0], left)

    return value


def _softmax(s, v):
    p = jnp.exp(s - s.max(axis=1, keepdims=True))
    return jnp.einsum("gt,td->gd", p, v, precision="highest") / p.sum(axis=1, keepdims=True)


@_with
def _masked_with_0(s, v, left):
    return _softmax(jnp.where(jnp.arange(of.PAGE) < left, s, 0), v)


@_with
def _without_last(s, v, left):
    return _softmax(jnp.where(jnp.arange(of.PAGE) < left - 1, s, -jnp.inf), v)


@_with
def _not_scaled(s, v, left):
    return _softmax(jnp.where(jnp.arange(of.PAGE) < left, s * math.sqrt(of.D), -jnp.inf), v)


EXERCISE = Exercise(
    id="14.3",
    title="The last page",
    kind="write",
    defines="last_page_kernel",
    judged="last_page",
    cases=_cases,
    reference=_last_page,
    slips=(
        judges.Slip(
            means="scores behind the last token become 0, and exp(0 - m) counts",
            value=_masked_with_0,
            next="replace them with -inf, before the maximum.",
        ),
        judges.Slip(
            means="the last token that counts is left out",
            value=_without_last,
            next="tokens 0 to left_ref[0] - 1 count: their number is < left_ref[0].",
        ),
        judges.Slip(
            means="the scores are not divided by sqrt(128)",
            value=_not_scaled,
            next="divide them by math.sqrt(D).",
        ),
    ),
    hints=(
        "Two things are wrong with a token that does not count: its score, and its value. What does each have to "
        "become, and before which operation?",
        "Replace the scores with -inf before the maximum. A weight of 0 times a NaN is NaN, so replace the values "
        "with 0.",
        "jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left_ref[0], s, -jnp.inf), and for the values the "
        "same along axis 0, with 0.",
    ),
    points=2,
)
