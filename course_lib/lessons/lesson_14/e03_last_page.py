"""Attention over the tokens of one page that is not full."""

import math

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_14 import pages as of


def _cases() -> list[tuple]:
    """Return pages with 5, 11, 16 and 1 tokens, and one whose scores are far below 0, of one query farther.

    Past the last token the first page and the last hold finite values, and the others NaN.
    """
    cases = []
    for seed, left in enumerate((5, 11, 16, 1)):
        pages, lengths, table = of.pool(seed, (left,), stale=jnp.nan if seed else 0.5)
        page = pages[table[0, 0]]
        cases.append((of.queries(seed, 4, of.D), page, lengths))
    pages, lengths, table = of.pool(1, (11,), stale=0.5)
    q = (abs(cases[1][0]) + 1) * jnp.array([[1.0], [1.0], [1.0], [4.0]])
    return [*cases, (q, pages[table[0, 0]].at[:, : of.D].add(-8), lengths)]


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
def _values_masked_across(s, v, left):
    return _softmax(jnp.where(jnp.arange(of.PAGE) < left, s, -jnp.inf), jnp.where(jnp.arange(of.D) < left, v, 0))


@_with
def _one_maximum(s, v, left):
    p = jnp.exp(jnp.where(jnp.arange(of.PAGE) < left, s, -jnp.inf) - s[:, : left[0]].max())
    return jnp.einsum("gt,td->gd", p, v, precision="highest") / p.sum(axis=1, keepdims=True)


@_with
def _scaled_by_a_row(s, v, left):
    return _softmax(jnp.where(jnp.arange(of.PAGE) < left, s / math.sqrt(2), -jnp.inf), v)


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
        judges.Slip(
            means="the scores are divided by sqrt(256), but a key has 128 elements",
            value=_scaled_by_a_row,
            next="divide by math.sqrt(D): a row of the page holds a key and a value.",
        ),
        judges.Slip(
            means="keys and values are exchanged",
            value=lambda q, page, left: _last_page(q, of.exchanged(page), left),
            next="a row begins with the key: k is page_ref[:, :D], and v is page_ref[:, D:].",
        ),
        judges.Slip(
            means="the mask of the values runs along their elements, not along the tokens",
            value=_values_masked_across,
            next="a token is a row of v, so compare broadcasted_iota(jnp.int32, v.shape, 0) with left_ref[0].",
        ),
        judges.Slip(
            means="no maximum is subtracted; these scores are so far below 0 that every exp(s) is 0, and 0 / 0 is NaN",
            value=lambda q, page, left: of.without_maximum(q[None], page[None], left)[0],
            next="subtract the maximum of each query's scores before exp: s.max(axis=1, keepdims=True).",
        ),
        judges.Slip(
            means="all queries share one maximum, so that every exp of a query far below it is 0, and 0 / 0 is NaN",
            value=_one_maximum,
            next="give each query its own maximum: s.max(axis=1, keepdims=True).",
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
