"""log(sum(exp(x))) of each column in one pass, as in online softmax."""

import jax
import jax.numpy as jnp

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import far_from_zero
from course_lib.lessons.lesson_08.columns import columns


def _columns() -> list[tuple]:
    cases = columns(({"M": 96, "N": 384}, {"M": 100, "N": 256}, {"M": 20, "N": 128}))
    return [*cases, (far_from_zero((128, 40), -1e30).T,)]


def _once(x) -> int:
    return cost.stored_bytes(x, jax.ShapeDtypeStruct((1, x.shape[1]), x.dtype))


def _first(i):
    """Return a function that selects the rows of the first column of blocks up to step (0, i)."""
    return lambda x: x[: 32 * (i + 1), :128]


def _largest(x):
    return jnp.max(x, axis=0, keepdims=True)


def _total(x):
    return jnp.sum(jnp.exp(x - _largest(x)), axis=0, keepdims=True)


def _zeros_in_the_tail(x):
    tail = jnp.zeros((-x.shape[0] % 32, x.shape[1]), x.dtype)
    return jax.nn.logsumexp(jnp.concatenate([x, tail]), axis=0, keepdims=True)


def _probe(scratch, place, i, of, means, next):
    rows = _first(i)
    return judges.Probe(
        scratch=scratch,
        place=place,
        after=(0, i),
        grid=(3, 3),
        expect=lambda x: of(rows(x)),
        means=means,
        next=next,
    )


PROBES = tuple(
    _probe(scratch, place, i, of, means, next)
    for i in (0, 2)
    for scratch, place, of, means, next in (
        (
            "max_ref",
            0,
            _largest,
            "the largest element of each column so far",
            "begin with -inf, and keep the larger of the old maximum and this block's.",
        ),
        (
            "sum_ref",
            1,
            _total,
            "the sum of exp(x - largest so far)",
            "multiply the old sum by exp(old - new), where old is what max_ref held before you wrote to it, and add "
            "the sum of exp(x - new) of this block.",
        ),
    )
)

EXERCISE = Exercise(
    id="08.6",
    title="Two passes to one",
    kind="write",
    defines="log_sum_kernel",
    judged="log_sum",
    cases=_columns,
    reference=lambda x: jax.nn.logsumexp(x, axis=0, keepdims=True),
    budget=judges.Budget(hbm_bytes=_once),
    probes=PROBES,
    slips=(
        judges.Slip(
            means="the maximum that was subtracted is not added back at the end",
            value=lambda x: jnp.log(_total(x)),
            next="log(sum(exp(x))) is the maximum plus the log of the sum.",
        ),
        judges.Slip(
            means="the rows past the end were masked with 0, which is larger than all of x",
            value=_zeros_in_the_tail,
            next="which value is neutral for a maximum, and has an exponential of 0?",
        ),
        judges.Slip(
            means="the rows past the end were masked with a value larger than x",
            value=lambda x: jnp.maximum(_largest(x), -1e30),
            next="mask them with -jnp.inf, which is smaller than every number.",
        ),
    ),
    hints=(
        "There are two carries, the largest element so far and the sum of exp(x - largest so far). How do they begin, "
        "and what happens to the sum when the largest element grows?",
        "Let new be the larger of the old maximum and this block's. Multiply the old sum by exp(old - new), and add "
        "the sum of exp(x - new) of this block. Mask the rows past the end with -inf, before the maximum.",
        "At i == 0, set max_ref to -inf and sum_ref to 0. Read max_ref into old before you write to it. In the last "
        "step, set o_ref to max_ref + log(sum_ref).",
    ),
    points=4,
)
