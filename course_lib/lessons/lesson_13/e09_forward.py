"""A whole kernel from an empty cell: attention and its log-sum-exp, within a limit on cycles."""

import jax
import jax.numpy as jnp

from course_lib import compiler, judges
from course_lib.checks import cycle_limit
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_13 import plain

LARGE = jax.ShapeDtypeStruct((2, 2048, 128), jnp.bfloat16)
MOST_CYCLES = 48_000


def _cases() -> list[tuple]:
    cases = []
    for seed, (heads, t, high) in enumerate(((2, 512, 3.0), (1, 256, 2.5), (1, 768, 4.0))):
        cases.append(tuple(x.astype(jnp.bfloat16) for x in plain.drawn(seed, *[(heads, t, 128)] * 3, high=high)))
    q, k, v = cases[1]
    return [*cases, (abs(q) + 1, k - 8, v)]  # all scores far below 0: exp of them without a maximum is 0


def _at_random() -> tuple:
    return tuple(x.astype(jnp.bfloat16) for x in plain.drawn(3, *[LARGE.shape] * 3, high=2.5))


def _both(q, k, v):
    lse = jax.nn.logsumexp(plain.scores(q.astype(jnp.float32), k.astype(jnp.float32)), axis=-1)
    return plain.attention_of_bfloat16(q, k, v), lse[:, None, :]


def _fast_enough(flash):
    """Demand at most MOST_CYCLES for two heads of 2048, where a compiler is at hand."""
    return cycle_limit.exceeded(flash, (LARGE,) * 3, MOST_CYCLES, "For 2 heads of 2048", _advice)


def _advice(report: compiler.Report) -> tuple[str, str]:
    busy = ", ".join(f"{unit} {report.slots.get(unit, 0):.0%}" for unit in ("MXU", "XLU", "EUP"))
    return f"The units' slots are filled as follows: {busy}.", _faster(report.slots)


def _faster(slots: dict[str, float]) -> str:
    """Return what to try, by the unit that is busiest."""
    if slots.get("MXU", 0) > 0.9:
        return "give the MXU bfloat16 operands, and the weights too, because a float32 matmul takes several passes."
    if slots.get("XLU", 0) > 0.6:
        return "take larger blocks of keys, because each of them costs a maximum across lanes for every row."
    return "keep m and l in all lanes, and put several large blocks of keys into one basic block."


EXERCISE = Exercise(
    id="13.9",
    title="From an empty cell: attention and its log-sum-exp",
    kind="write",
    defines="flash",
    cases=_cases,
    reference=_both,
    slips=(
        judges.Slip(
            means="lse has no maximum in it and is only log(l)",
            value=lambda q, k, v: _both(q, k, v)[1] - _largest(q, k),
            next="compute lse = m / sqrt(D) + log(l).",
            output=1,
        ),
        judges.Slip(
            means="lse is a logarithm to the base 2",
            value=lambda q, k, v: _both(q, k, v)[1] / jnp.log(2.0),
            next="multiply by log(2), or take jnp.log of l and the scaled maximum.",
            output=1,
        ),
    ),
    also=(_fast_enough,),
    also_at=lambda: [_at_random()],
    hints=(
        "Begin with the lesson's straight-line kernel, with all keys of a head in VMEM and the loop over them in "
        "Python.",
        "For scaled scores lse is m + log(l). If m is the largest score before scaling, divide it by sqrt(128).",
        "To make a row of the column of lse for 512 queries, write lse_ref[...] = (m[:, :1] / math.sqrt(d) + "
        "jnp.log(l)).T, for a block of (None, 1, 512).",
    ),
    points=4,
)


def _largest(q, k):
    return plain.scores(q.astype(jnp.float32), k.astype(jnp.float32)).max(axis=-1)[:, None, :]
