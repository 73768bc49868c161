"""log(sum(exp(x))) of each column in one pass: the online softmax."""

import jax
import jax.numpy as jnp

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments


def _columns() -> list[tuple]:
    """Numbers whose exponentials are 0 in float32: the maximum must be taken away."""
    sizes = ({"M": 96, "N": 384}, {"M": 100, "N": 256}, {"M": 20, "N": 128})
    return arguments(("x: f32[M,N]",), sizes, (), (-110, -90))


def _once(x) -> int:
    return cost.stored_bytes(x, jax.ShapeDtypeStruct((1, x.shape[1]), x.dtype))


def _first(i):
    """Of the first column of blocks, what is there after step (0, i)."""
    return lambda x: x[: 32 * (i + 1), :128]


def _largest(x):
    return jnp.max(x, axis=0, keepdims=True)


def _total(x):
    return jnp.sum(jnp.exp(x - _largest(x)), axis=0, keepdims=True)


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
            "the largest number of each column so far",
            "begin with -inf, and keep the larger one.",
        ),
        (
            "sum_ref",
            1,
            _total,
            "the sum of exp(x - largest so far)",
            "multiply the old sum by exp(old - new); old is what max_ref held before you wrote to it.",
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
            means="the maximum that was taken away is missing in the end",
            value=lambda x: jnp.log(_total(x)),
            next="log(sum(exp(x))) is the maximum plus the log of the sum.",
        ),
    ),
    hints=(
        "Two carries: the largest number so far, and the sum of exp(x - largest so far). How do they begin, and what "
        "happens to the sum when the first of them grows?",
        "new = the larger of the old maximum and this block's. The old sum times exp(old - new), plus the sum of exp(x "
        "- new) of this block. Mask the rows past the end with -inf, before the maximum.",
        "At i == 0: max_ref = -inf, sum_ref = 0. Read max_ref into old before you write it. In the last step: o_ref = "
        "max_ref + log(sum_ref).",
    ),
    points=4,
)
