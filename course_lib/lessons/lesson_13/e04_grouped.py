"""Index maps for query heads that share KV heads, in a batch."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.unfit import Unfit, described
from course_lib.lessons.lesson_13 import online, plain

SIDE = 128


def _cases() -> list[tuple]:
    cases = []
    for seed, (batch, heads, kv_heads, t, d) in enumerate(
        ((2, 4, 2, 256, 128), (3, 2, 1, 128, 64), (2, 3, 3, 128, 128))
    ):
        shapes = (batch, heads, t, d), (batch, kv_heads, t, d), (batch, kv_heads, t, d)
        cases.append(tuple(plain.drawn(seed, *shapes)))
    return cases


def _shared(q, k, v, of_head=lambda h, heads, kv_heads: h // (heads // kv_heads)):
    heads, kv_heads = q.shape[1], k.shape[1]
    chosen = of_head(jnp.arange(heads), heads, kv_heads)
    return plain.attention(q, k[:, chosen], v[:, chosen])


def _with_blocks(blocks):
    """Return attention with the learner's index maps. Raise Unfit for what are not two indices of four numbers."""

    def attention(q, k, v):
        (batch, heads, t, d), kv_heads = q.shape, k.shape[1]
        found = blocks(0, 0, 0, heads, kv_heads)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise Unfit(
                f"blocks(0, 0, 0, {heads}, {kv_heads}) returns {described(found)}, but two indices are asked for.",
                "return the index of q's block and that of k's block, with four numbers each.",
            )
        of_q, of_k = (
            pl.BlockSpec((None, None, SIDE, d), lambda *at, n=n: blocks(*at, heads, kv_heads)[n]) for n in range(2)
        )
        statistic = pltpu.VMEM((SIDE, 1), jnp.float32)
        return pl.pallas_call(
            _attention_kernel,
            out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
            grid=(batch * heads, t // SIDE, t // SIDE),
            in_specs=[of_q, of_k, of_k],
            out_specs=of_q,
            scratch_shapes=[statistic, statistic, pltpu.VMEM((SIDE, d), jnp.float32)],
        )(q, k, v)

    return attention


def _attention_kernel(q_ref, k_ref, v_ref, o_ref, *sums):
    online.begin(*sums)
    online.add(online.scores(q_ref, k_ref), v_ref, *sums)
    online.store(o_ref, *sums[1:])


EXERCISE = Exercise(
    id="13.4",
    title="Configure only: grouped heads in a batch",
    kind="configure",
    defines="blocks",
    cases=_cases,
    reference=_shared,
    build=_with_blocks,
    slips=(
        judges.Slip(
            means="consecutive query heads take the KV heads in turn",
            value=lambda q, k, v: _shared(q, k, v, lambda h, heads, kv_heads: h % kv_heads),
            next="the first query heads share KV head 0, so divide instead of taking the remainder.",
        ),
        judges.Slip(
            means="all query heads take head 0 of the keys and values",
            value=lambda q, k, v: _shared(q, k, v, lambda h, heads, kv_heads: 0 * h),
            next="let query head h take KV head h // (heads // kv_heads).",
        ),
        judges.Slip(
            means="every step takes the first block of the keys",
            value=lambda q, k, v: _shared(q, k[:, :, :SIDE], v[:, :, :SIDE]),
            next="let step j take block j of the keys, the third entry of their index.",
        ),
    ),
    hints=(
        "Split n first: which sequence is it, and which query head?",
        "n // heads is the sequence, and n % heads is the query head. Each KV head is shared by heads // kv_heads of "
        "them.",
        "Return (n // heads, n % heads, i, 0) for q, and (n // heads, n % heads // (heads // kv_heads), j, 0) for k "
        "and v.",
    ),
    points=1,
)
