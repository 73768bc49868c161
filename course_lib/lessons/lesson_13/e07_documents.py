"""A kernel to repair: attention within documents that are packed into one sequence."""

import functools

import jax
import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_13 import plain

LENGTHS = ((100, 90, 40, -26), (128,), (-60, 200, 124))  # of documents; below 0: of padding


def _ids(lengths: tuple[int, ...]):
    ids = [jnp.full(abs(n), 0 if n < 0 else number) for number, n in enumerate(lengths, 1)]
    return jnp.concatenate(ids).astype(jnp.int32)[None]


def _cases() -> list[tuple]:
    """Return documents and padding of several lengths; scores of hundreds, the largest elsewhere, or all negative."""
    cases = []
    for seed, lengths in enumerate(LENGTHS):
        ids = _ids(lengths)
        t = ids.shape[1] // 128 * 128
        q, k, v = plain.drawn(seed, *[(2, t, 128)] * 3, high=4.0)
        loud = jnp.where(ids[0, :t] == 2, 8.0, 1.0)[None, :, None]
        cases.append((q, k * loud, v, ids[:, :t]))
    q, k, v, ids = cases[1]
    return [*cases, (abs(q) + 1, k - 8, v, ids)]  # all scores far below 0


def _documents(q, k, v, ids):
    seen = (ids.T == ids) & (ids.T > 0)
    return jnp.where(ids.T > 0, plain.attention(q, k, v, seen | (ids.T == 0)), 0)


def _with_padding(q, k, v, ids):
    return plain.attention(q, k, v, ids.T == ids)


def _sum_of_all(q, k, v, ids):
    """Return each block of 128 queries divided by the sum of all its weights."""
    s = jnp.where((ids.T == ids) & (ids.T > 0), plain.scores(q, k), -jnp.inf)
    m = s.max(axis=-1, keepdims=True)
    p = jnp.exp(s - jnp.where(jnp.isneginf(m), 0, m))
    total = p.reshape(len(q), -1, 128, p.shape[-1]).sum(axis=(2, 3))
    return plain.weighted(p, v) / jnp.repeat(total, 128, axis=1)[..., None]


def _maximum_of_all(q, k, v, ids, *, padding=0, guarded=True):
    """Return it with the maximum taken over keys of other documents too."""
    s = plain.scores(q, k)
    p = jnp.where((ids.T == ids) & (ids.T > padding), jnp.exp(s - s.max(axis=-1, keepdims=True)), 0)
    total = p.sum(axis=-1, keepdims=True)
    return plain.weighted(p, v) / (jnp.where(total == 0, 1, total) if guarded else total)


def _masked_with(number: float, q, k, v, ids):
    """Return it with ``number`` for the scores that do not count."""
    s = jnp.where((ids.T == ids) & (ids.T > 0), plain.scores(q, k), number)
    return plain.weighted(jax.nn.softmax(s, axis=-1), v)


def _one_maximum(q, k, v, ids):
    """Return it with one maximum for each block of 128 queries."""
    s = jnp.where((ids.T == ids) & (ids.T > 0), plain.scores(q, k), -jnp.inf)
    m = s.reshape(len(q), -1, 128, s.shape[-1]).max(axis=(2, 3))
    p = jnp.exp(s - jnp.repeat(m, 128, axis=1)[..., None])
    total = p.sum(axis=-1, keepdims=True)
    return plain.weighted(p, v) / jnp.where(total == 0, 1, total)


def _with_earlier(q, k, v, ids):
    seen = (ids.T >= ids) & (ids.T > 0)
    return jnp.where(ids.T > 0, plain.attention(q, k, v, seen | (ids.T == 0)), 0)


def _maximum_from_0(q, k, v, ids):
    """Return it with 0 for a maximum that is smaller."""
    s = jnp.where((ids.T == ids) & (ids.T > 0), plain.scores(q, k), -jnp.inf)
    p = jnp.exp(s - jnp.maximum(s.max(axis=-1, keepdims=True), 0))
    total = p.sum(axis=-1, keepdims=True)
    return plain.weighted(p, v) / jnp.where(total == 0, 1, total)


_HIDDEN = "the maximum is taken over keys of other documents too, so a query's own weights may become 0"
_MASK_FIRST = "mask the scores with -inf before you take the maximum."


EXERCISE = Exercise(
    id="13.7",
    title="Repair: documents in a row",
    kind="repair",
    defines="documents_kernel",
    judged="documents",
    cases=_cases,
    reference=_documents,
    slips=(
        judges.Slip(
            means="padding attends to padding instead of to nothing",
            value=_with_padding,
            next="a query whose id is 0 must see nothing, and its result is 0.",
        ),
        judges.Slip(
            means="all queries of a block are divided by one sum, the sum of all their weights",
            value=_sum_of_all,
            next="sum each row by itself, along axis 1 with keepdims=True.",
        ),
        judges.Slip(means=_HIDDEN, value=_maximum_of_all, next=_MASK_FIRST),
        judges.Slip(
            means="the maximum is at least 0, so in a row whose scores are far below 0 every exp is 0",
            value=_maximum_from_0,
            next="subtract 0 only where the maximum is -inf.",
        ),
        judges.Slip(
            means="the scores of other documents become 0, so that each adds exp(0 - m)",
            value=functools.partial(_masked_with, 0.0),
            next=_MASK_FIRST,
        ),
        judges.Slip(
            means=(
                "the scores are masked with a finite number, which is also the maximum in a row of padding, so every "
                "exp is 1 there, and all keys count"
            ),
            value=functools.partial(_masked_with, -1e30),
            next="mask with -inf, and subtract 0 where the maximum is -inf.",
        ),
        judges.Slip(
            means="all queries of a block have one maximum, so in a row far below it every exp is 0",
            value=_one_maximum,
            next="take the maximum along axis 1 with keepdims=True, because each row has its own.",
        ),
        judges.Slip(
            means="a query also sees the documents before its own",
            value=_with_earlier,
            next="compare the ids with ==, because only equal ids count.",
        ),
        *(
            judges.Slip(
                means=_HIDDEN, value=functools.partial(_maximum_of_all, padding=n, guarded=False), next=_MASK_FIRST
            )
            for n in (0, -1)
        ),
    ),
    hints=(
        "Which scores does the maximum see, which weights does the sum add up, and what does a query with id 0 see?",
        "Mask the scores with -inf before you take the maximum; then the exponentials need no mask. Sum the "
        "exponentials of each row by itself.",
        "In a row without keys the maximum is -inf, and -inf - (-inf) is NaN, so subtract 0 there, and divide by 1.",
    ),
    points=3,
)
