"""A whole kernel from an empty cell: the mean of v weighted by softmax(s), in one pass, over the first n rows."""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import cost, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, far_from_zero
from course_lib.lessons.lesson_08.columns import columns


def _scores_and_values() -> list[tuple]:
    """Return scores as in 08.6; in one case every row that does not count is NaN, in one the scores are very small."""
    sizes = ({"M": 96, "N": 256}, {"M": 100, "N": 128}, {"M": 20, "N": 128})
    values = arguments(("v: f32[M,N]",), sizes, (), (-110, -90))
    made = []
    for (s,), (v,), n in zip(columns(sizes), values, (37, 37, 97, 97, 1, 1), strict=True):
        if len(made) == 3:
            s, v = s.at[n:].set(jnp.nan), v.at[n:].set(jnp.nan)
        made.append((s, v, np.full(1, n, np.int32)))
    return [*made, (far_from_zero((128, 20), -1e30).T, values[-1][0], np.full(1, 7, np.int32))]


def _pooled(s, v, n):
    own = jax.lax.broadcasted_iota(jnp.int32, s.shape, 0) < n[0]
    weights = jax.nn.softmax(jnp.where(own, s, -jnp.inf), axis=0)
    return jnp.sum(weights * jnp.where(own, v, 0), axis=0, keepdims=True)


def _from_a_finite_number(s, v, n):
    own = jax.lax.broadcasted_iota(jnp.int32, s.shape, 0) < n[0]
    largest = jnp.maximum(jnp.max(jnp.where(own, s, -jnp.inf), axis=0), -1e30)
    weights = jnp.where(own, jnp.exp(s - largest), 0)
    return jnp.sum(weights * jnp.where(own, v, 0), axis=0, keepdims=True) / jnp.sum(weights, axis=0)


def _all_rows(s, v, n):
    return _pooled(s, v, jnp.full_like(n, s.shape[0]))


def _undivided(s, v, n):
    own = jax.lax.broadcasted_iota(jnp.int32, s.shape, 0) < n[0]
    s = jnp.where(own, s, -jnp.inf)
    return jnp.sum(jnp.exp(s - s.max(axis=0)) * jnp.where(own, v, 0), axis=0, keepdims=True)


def _once(s, v, n) -> int:
    """Return the bytes of s, v and the result, each moved once, plus the tile that n may take."""
    return cost.stored_bytes(s, v, s[:1]) + 4096


def _blocks_stay_small(pooled):
    shape = jax.ShapeDtypeStruct((4096, 128), jnp.float32)
    (call, *_) = grid.walk(pooled, shape, shape, np.full(1, 4096, np.int32)).calls
    tall = [o.name for o in call.inputs if o.pipelined and max(map(int, o.block_shape)) >= 4096]
    if tall:
        return (
            f"With 4096 rows a block of {' and of '.join(tall)} has all of them.",
            "cut the rows, give them the last axis of the grid, and carry three things.",
        )
    return None


EXERCISE = Exercise(
    id="08.9",
    title="From an empty cell: a weighted mean, in one pass",
    kind="write",
    defines="pooled",
    cases=_scores_and_values,
    reference=_pooled,
    budget=judges.Budget(hbm_bytes=_once),
    slips=(
        judges.Slip(
            means="the rows from n[0] on count as well",
            value=_all_rows,
            next="compare the row with n_ref[0], in the mask of s.",
        ),
        judges.Slip(
            means="this is the sum of exp(s - largest) * v",
            value=_undivided,
            next="divide it by the sum of exp(s - largest), in the last step.",
        ),
        judges.Slip(
            means="the maximum begins with a finite number, and below it lie all of the numbers",
            value=_from_a_finite_number,
            next="begin with -jnp.inf, which is smaller than every number.",
        ),
    ),
    also=(_blocks_stay_small,),
    hints=(
        "08.6 has two carries. What else has to shrink when the maximum grows?",
        "acc, the sum of exp(s - largest so far) * v: multiply it by exp(old - new) as well. At the end acc / sum. n "
        "goes into SMEM: pl.BlockSpec(memory_space=pltpu.SMEM).",
        "Mask s with -inf before its maximum, and v with 0 before the product, by row < n_ref[0]: 0 times garbage may "
        "be NaN. The work stands under pl.when(side * i < n_ref[0]); begin and store do not.",
    ),
    points=4,
)
