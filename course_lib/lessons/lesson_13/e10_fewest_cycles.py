"""Golf: causal attention of short sequences in the fewest cycles."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import CYCLES, Golf
from course_lib.lessons.lesson_13 import plain


def _cases() -> list[tuple]:
    cases = []
    for seed, (heads, t) in enumerate(((2, 1024), (1, 512))):
        cases.append(tuple(x.astype(jnp.bfloat16) for x in plain.drawn(seed, *[(heads, t, 128)] * 3)))
    return cases


def _causal(q, k, v):
    return plain.attention_of_bfloat16(q, k, v, plain.causal(q.shape[1]))


EXERCISE = Exercise(
    id="13.10",
    title="Golf: causal, in the fewest cycles",
    kind="golf",
    defines="causal",
    cases=_cases,
    reference=_causal,
    golf=Golf(unit=CYCLES, par=10_500, floor=4_096),
    hints=(
        "Take one step for each head, with all of its queries in one long basic block. What lies above the diagonal "
        "is then never computed, because Python's loops leave it out.",
        "If a block of queries has all of its scores in one array, its maximum is known at once, and nothing has to "
        "be rescaled. Only the triangle on the diagonal needs a mask.",
        "With blocks of 128 or 256 queries, compute the scores of the next block before the softmax of this one, so "
        "that the MXU has work while the exponentials are computed.",
    ),
    points=4,
)
