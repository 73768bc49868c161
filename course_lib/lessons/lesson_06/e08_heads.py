"""A whole kernel from an empty cell, for heads of 64 values, two in each row of a register."""

import jax
import jax.numpy as jnp

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, at_random, with_still_rows
from course_lib.judges import Slip
from course_lib.lessons.lesson_06 import core
from course_lib.lessons.lesson_06.heads import normed, slow

BLOCK = jax.ShapeDtypeStruct((256, 256), jnp.float32)
TIMES_FEWER = 2.5


def _over_the_whole_row(x):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-6)


def _over_128(x):
    pairs = x.reshape(x.shape[0], x.shape[1] // 128, 128)
    scale = jax.lax.rsqrt(jnp.mean(pairs * pairs, axis=2, keepdims=True) + 1e-6)
    return (pairs * scale).reshape(x.shape)


def _over_the_sum(x):
    heads = x.reshape(x.shape[0], x.shape[1] // 64, 64)
    return (heads * jax.lax.rsqrt(jnp.sum(heads * heads, axis=2, keepdims=True) + 1e-6)).reshape(x.shape)


def _nothing_added(x):
    heads = x.reshape(x.shape[0], x.shape[1] // 64, 64)
    return (heads * jax.lax.rsqrt(jnp.mean(heads * heads, axis=2, keepdims=True))).reshape(x.shape)


def _rows() -> list[tuple]:
    sizes = ({"M": 64, "N": 256}, {"M": 20, "N": 128}, {"M": 5, "N": 384})
    cases = arguments(("x: f32[M,N]",), sizes, within=(-4, 4))
    return [*cases, (with_still_rows(cases[-1][0]),)]


EXERCISE = Exercise(
    id="06.8",
    title="From an empty cell: two heads in a register",
    kind="write",
    defines="normed_heads",
    cases=_rows,
    reference=normed,
    budget=judges.Budget(hbm_bytes=lambda x: cost.stored_bytes(x, x)),
    slips=(
        Slip(
            means="each row was divided by the root mean square of the whole row",
            value=_over_the_whole_row,
            next="compute it for each head: a head has 64 values, and a row of a register holds two heads.",
        ),
        Slip(
            means="two heads were taken as one, of 128 values",
            value=_over_128,
            next="sum the two heads of a register separately. A broadcasted_iota says which lanes are below 64, and "
            "those belong to the first head.",
        ),
        Slip(
            means="the squares of a head were summed but not averaged",
            value=_over_the_sum,
            next="divide the sum by 64.",
        ),
        Slip(
            means="1e-6 is missing under the root, so a row of zeros becomes 0 / 0",
            value=_nothing_added,
            next="add it to the mean of the squares, before the root.",
        ),
    ),
    also=(
        core.at_most(
            lambda: int(core.cycles_once(slow, BLOCK) / TIMES_FEWER),
            "For x[256, 256] the core takes {mine} cycles, predicted (compiler), not counting waits for copies. It may "
            "take {most}, because slow_heads takes 2.5 times as many.",
            "count the trips to the XLU for each register: two sums along the lanes are enough, and no element has to "
            "leave its lane.",
            BLOCK,
        ),
    ),
    also_at=lambda: [(at_random(BLOCK, 0, (-4, 4)),)],
    achieved=core.won("slow_heads takes", lambda: core.cycles_once(slow, BLOCK), BLOCK),
    hints=(
        "Leave the elements in their lanes. In each register, the first 64 lanes are one head and the others the next.",
        "Set v * v to zero in the lanes of the other head (jnp.where, with a broadcasted_iota along axis 1) and sum "
        "along the lanes, which gives the sum of one head. Do this for both heads, and choose between the sums in each "
        "lane.",
        "for c in range(0, v.shape[1], 128): part = v[:, c : c + 128]; compute the left and the right sum; scale = "
        "rsqrt(where(first, left, right) / 64 + 1e-6); o_ref[:, c : c + 128] = part * scale.",
    ),
    points=3,
)
