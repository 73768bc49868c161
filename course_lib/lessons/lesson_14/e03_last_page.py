"""Attention over the tokens of one page that is not full."""

import math

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_14 import pages as of


def _cases() -> list[tuple]:
    """Return pages with 5, 11, 16 and 1 tokens, and one whose scores are far below 0.

    Past the last token the first page holds finite values, and the others NaN.
    """
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
            means="the scores past the last token become 0, so that exp(0 - m) counts for each of them",
            value=_masked_with_0,
            next="replace these scores with -inf, before the maximum.",
        ),
        judges.Slip(
            means="the last token that counts is left out",
            value=_without_last,
            next="tokens 0 to left_ref[0] - 1 count, so compare their number with < left_ref[0].",
        ),
        judges.Slip(
            means="the scores are not divided by sqrt(128)",
            value=_not_scaled,
            next="divide the scores by math.sqrt(D), before the maximum.",
        ),
    ),
    hints=(
        "Two parts of a token that does not count can spoil the result: its score and its value. What does each have "
        "to become, and before which operation?",
        "Replace such a score with -inf before the maximum. A weight of 0 times NaN is NaN, so replace the value as "
        "well, with 0.",
        "Write s = jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < left_ref[0], s, -jnp.inf), and do the "
        "same for the values along axis 0, with 0.",
    ),
    points=2,
)
