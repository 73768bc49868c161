"""A whole kernel from an empty cell: attention to given scores, in one pass over the keys."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import cost, grid, judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, at_random, far_from_zero

_BLOCK = 128  # keys: the scores rise or fall from one such block to the next
# Rise of the scores per block: small, so that a wrong factor shows, and more than exp can hold. Those that rise by 100
# begin below any initial value except -inf.
_RISES = (1, 100, -1, -100, 1, 100)
_FAR_DOWN = 700


def _cases() -> list[tuple]:
    """Return (s, v, n) at three sizes, twice; in one case the scores that do not count are NaN, in the last all scores
    are very small. One query attends to all keys, one to none, one to the first."""
    sizes = ({"M": 16, "N": 384}, {"M": 256, "N": 300}, {"M": 8, "N": 200})
    made = []
    for (s, v), rise in zip(arguments(("s: f32[M,N]", "v: f32[N,128]"), sizes, (), (-2, 2)), _RISES, strict=True):
        queries, keys = s.shape
        s = s + rise * (np.arange(keys) // _BLOCK) - (_FAR_DOWN if rise == max(_RISES) else 0)
        n = np.arange(queries, dtype=np.int32)[:, None] * 37 % (keys + 1)
        n[:3, 0] = keys, 0, 1
        if len(made) == 3:
            s = jnp.where(np.arange(keys) < n, s, jnp.nan)
        made.append((s, v, n))
    return [*made, (far_from_zero((8, 200), -1e30), made[-1][1], np.full((8, 1), 200, np.int32))]


def _exponentials(s, n, least=-jnp.inf):
    """Return exp(s - largest) of the first n scores of each row, and 0 for the others."""
    counts = jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) < n
    scores = jnp.where(counts, s, -jnp.inf)
    return jnp.where(counts, jnp.exp(scores - jnp.maximum(jnp.max(scores, axis=1, keepdims=True), least)), 0)


def _attention(s, v, n, least=-jnp.inf):
    """Return the softmax of the first n scores of each row, times v; zeros where n is 0."""
    e = _exponentials(s, n, least)
    total = jnp.sum(e, axis=1, keepdims=True)
    return jnp.dot(e, v, precision="highest") / jnp.where(total == 0, 1, total)


def _all_keys(s, v, n):
    return _attention(s, v, jnp.full_like(n, s.shape[1]))


def _undivided(s, v, n):
    return jnp.dot(_exponentials(s, n), v, precision="highest")


def _mean_without_keys(s, v, n):
    beyond = -v.shape[0] % _BLOCK
    return jnp.where(n == 0, jnp.sum(v, axis=0) / (v.shape[0] + beyond), _attention(s, v, n))


def _once(s, v, n) -> int:
    """Return the bytes of s, n and the result, each moved once, and those of v once for every 128 queries."""
    out = jax.ShapeDtypeStruct((s.shape[0], v.shape[1]), v.dtype)
    return cost.stored_bytes(s, n, out) + -(-s.shape[0] // 128) * cost.stored_bytes(v)


def _many_keys() -> tuple:
    s, v = (at_random(jax.ShapeDtypeStruct(shape, jnp.float32), 0) for shape in ((128, 4096), (4096, 128)))
    return s, v, jnp.full((128, 1), 4096, jnp.int32)


def _blocks_stay_small(attend):
    (call, *_) = grid.walk(attend, *_many_keys()).calls
    long = [o.name for o in call.inputs if o.pipelined and max(map(int, o.block_shape)) >= 4096]
    if long:
        return (
            f"With 4096 keys, a block of {' and of '.join(long)} has all of them.",
            "split the keys into blocks, give them the last axis of the grid, and carry three values.",
        )
    return None


EXERCISE = Exercise(
    id="08.9",
    title="From an empty cell: attention to given scores",
    kind="write",
    defines="attend",
    cases=_cases,
    reference=_attention,
    budget=judges.Budget(hbm_bytes=_once),
    slips=(
        judges.Slip(
            means="keys from n on count as well",
            value=_all_keys,
            next="compare the index of the key with n_ref[...] in the mask of the scores.",
        ),
        judges.Slip(
            means="this is the sum of exp(s - largest) * v",
            value=_undivided,
            next="divide it by the sum of exp(s - largest) in the last step.",
        ),
        judges.Slip(
            means="a query that sees no key becomes NaN, and must become 0",
            value=lambda s, v, n: jnp.where(n == 0, jnp.nan, _attention(s, v, n)),
            next="where the maximum is still -inf, subtract 0 instead, because -inf - (-inf) is NaN. And where the "
            "sum is 0, divide by 1.",
        ),
        judges.Slip(
            means="a query that sees no key gets the mean of all values, and must get 0",
            value=_mean_without_keys,
            next="mask the scores with -jnp.inf, whose exponential is 0. With a finite mask, every masked score of "
            "this query equals the maximum, and exp(0) is 1.",
        ),
        *(
            judges.Slip(
                means=f"the maximum begins with a finite number, {least:.5g}, and all of the scores lie below it",
                value=functools.partial(_attention, least=least),
                next="begin with -jnp.inf, which is smaller than every number.",
            )
            for least in (-1e30, 0.0)
        ),
    ),
    also=(_blocks_stay_small,),
    also_at=lambda: [_many_keys()],
    hints=(
        "08.6 has two carries. What else has to shrink when the maximum grows? Here each query has its own maximum, "
        "so each of the three carries has a row for each query.",
        "The third carry is acc, the sum of exp(s - largest so far) @ v. Multiply it by exp(old - new) as well, and "
        "divide it by the sum at the end. Keep maximum and sum as (queries, 128), with the same value in every lane, "
        "and take 128 keys at a time; then they fit the scores and acc as they are.",
        "Mask the scores with -inf where the key is n_ref[...] or more, and v with 0 beyond its last row, because 0 "
        "times garbage may be NaN. A query that has seen no key has the maximum -inf, so subtract jnp.where(new == "
        "-jnp.inf, 0, new).",
    ),
    points=4,
)
