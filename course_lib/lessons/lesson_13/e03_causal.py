"""Which blocks of a causal kernel work, which need a mask, and which keys each step has."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib.checks.exercise import Exercise
from course_lib.checks.unfit import Unfit, described
from course_lib.lessons.lesson_13 import online, plain

BQ, BK = 256, 128
_WRONG = "the plan is wrong for a block."


def _cases() -> list[tuple]:
    cases = []
    for seed, (heads, t, d) in enumerate(((2, 768, 128), (1, 256, 64), (1, 1024, 64))):
        cases.append(tuple(plain.drawn(seed, *[(heads, t, d)] * 3)))
    return cases


def _with_plan(plan):
    """Return the causal kernel with the learner's plan. Raise Unfit where it is wrong for a block."""
    found = plan(0, 0)
    if not isinstance(found, tuple | list) or len(found) != 3:
        raise Unfit(
            f"plan(0, 0) returns {described(found)}, but three values are asked for.",
            "return works, needs_mask, block_of_keys.",
        )
    _each_block_is_right(plan)
    _no_copy_without_work(plan)

    def kernel(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref):
        i, j = pl.program_id(1), pl.program_id(2)
        online.begin(m_ref, l_ref, acc_ref)
        works, needs_mask, _ = plan(i, j)

        @pl.when(works)
        def work():
            s = online.scores(q_ref, k_ref)
            row, column = (jax.lax.broadcasted_iota(jnp.int32, s.shape, axis) for axis in (0, 1))
            counts = (j * BK + column <= i * BQ + row) | jnp.logical_not(needs_mask)
            online.add(jnp.where(counts, s, -jnp.inf), v_ref, m_ref, l_ref, acc_ref)

        online.store(o_ref, l_ref, acc_ref)

    def attention(q, k, v):
        heads, t, d = q.shape
        queries = pl.BlockSpec((None, BQ, d), lambda h, i, j: (h, i, 0))
        keys = pl.BlockSpec((None, BK, d), lambda h, i, j: (h, plan(i, j)[2], 0))
        statistic = pltpu.VMEM((BQ, 1), jnp.float32)
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
            grid=(heads, t // BQ, t // BK),
            in_specs=[queries, keys, keys],
            out_specs=queries,
            scratch_shapes=[statistic, statistic, pltpu.VMEM((BQ, d), jnp.float32)],
        )(q, k, v)

    return attention


def _blocks():
    """Yield (i, j, whether any score counts, whether all do) for 1024 positions, by their positions."""
    counts = jax.device_get(plain.causal(1024))
    for i in range(1024 // BQ):
        for j in range(1024 // BK):
            block = counts[i * BQ : (i + 1) * BQ, j * BK : (j + 1) * BK]
            yield i, j, bool(block.any()), bool(block.all())


def _each_block_is_right(plan) -> None:
    for i, j, some, full in _blocks():
        works, needs_mask, _ = plan(i, j)
        where = f"Block ({i}, {j}) has queries {i * BQ} to {i * BQ + BQ - 1} and keys {j * BK} to {j * BK + BK - 1}"
        if bool(works) != some:
            said = (
                "some of its scores count, but the plan says that there is no work"
                if some
                else "none of its scores counts, but the plan says that there is work"
            )
            raise Unfit(f"{where}: {said}.", "compare the first key of the block with its last query.", headline=_WRONG)
        if some and bool(needs_mask) == full:
            said = (
                "all of its scores count, but the plan asks for a mask"
                if full
                else "not all of its scores count, but the plan asks for no mask"
            )
            raise Unfit(f"{where}: {said}.", "compare the last key of the block with its first query.", headline=_WRONG)


def _no_copy_without_work(plan) -> None:
    before = None
    for i, j, some, _ in _blocks():
        block = int(plan(i, j)[2])
        if some and block != j:
            raise Unfit(
                f"Block ({i}, {j}) needs block {j} of the keys, but the plan names {block}.",
                "if a step works, its block of keys is j, which counts blocks and not keys.",
                headline=_WRONG,
            )
        if not some and block not in (before, 0):  # which the next queries need first
            raise Unfit(
                f"Step ({i}, {j}) has no work, but the plan asks for block {block} of the keys, while block {before} "
                "is in VMEM.",
                "stay at the last block that this i needs, or go to block 0, with which the next i begins.",
                headline="the kernel copies keys that nobody reads.",
            )
        before = block


EXERCISE = Exercise(
    id="13.3",
    title="Configure only: causal, in blocks of two sizes",
    kind="configure",
    defines="plan",
    cases=_cases,
    reference=lambda q, k, v: plain.attention(q, k, v, plain.causal(q.shape[1])),
    build=_with_plan,
    hints=(
        "Query r sees the keys up to r, so write down the first and last query of block i, and the first and last key "
        "of block j.",
        "A block has work if its first key is not after its last query. It needs a mask if its last key is after its "
        "first query.",
        "The last block of keys that block i of the queries needs contains its last query, so it is (i * BQ + BQ - 1) "
        "// BK.",
    ),
    points=2,
)
