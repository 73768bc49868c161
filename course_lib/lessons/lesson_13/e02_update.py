"""The forward kernel of attention: three sums that are rescaled."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_13 import plain


def _cases() -> list[tuple]:
    """Return scores of up to 300 in both signs, one case for each mistake about the maximum that then gives NaN.

    In the first, the scores rise far above 0, which shows that no maximum is subtracted. In the second, all scores are
    far below 0, and half of the rows even further, so a maximum that begins with 0, or that all rows share, is too
    large. In the last one, the first block has the largest scores.
    """
    cases = []
    for seed, (t, d, offsets, scales) in enumerate(
        ((128, 128, (0, 12), (1, 1)), (128, 64, (-8, -7.5), (1, 2)), (256, 128, (12, 0, -5), (1, 1)))
    ):
        heads, s = 2, 128 * len(offsets)
        q, k, v = plain.drawn(seed, (heads, t, d), (heads, s, d), (heads, s, d), high=1.0)
        q = (q + 2) * jnp.tile(jnp.array(scales, q.dtype), t // 2)[None, :, None]
        cases.append((q, k + jnp.repeat(jnp.array(offsets, k.dtype), 128)[None, :, None], v))
    return cases


def _blocks(q, k, v):
    return [(k[:, at : at + 128], v[:, at : at + 128]) for at in range(0, k.shape[1], 128)]


def _folded(q, k, v, *, of_acc: bool = True, of_l: bool = True, maximum=jnp.maximum, begins=-jnp.inf):
    """Return the result if acc or l is not rescaled, or with another ``maximum`` of the old one and the scores."""
    m = jnp.full((*q.shape[:2], 1), begins)
    l = acc = 0.0  # noqa: E741
    for k_block, v_block in _blocks(q, k, v):
        s = plain.scores(q, k_block)
        new = maximum(m, s.max(axis=-1, keepdims=True))
        p, shrink = jnp.exp(s - new), jnp.exp(m - new)
        l = l * (shrink if of_l else 1) + p.sum(axis=-1, keepdims=True)  # noqa: E741
        acc = acc * (shrink if of_acc else 1) + plain.weighted(p, v_block)
        m = new
    return acc / l


def _of_all_rows(m, largest):
    rows = jnp.maximum(m, largest).reshape(len(m), -1, 128, 1)
    return jnp.broadcast_to(rows.max(axis=2, keepdims=True), rows.shape).reshape(m.shape)


def _last_block(q, k, v):
    return plain.attention(q, *_blocks(q, k, v)[-1])


def _own_maximum(q, k, v):
    """Return the result if every block has a maximum of its own, and nothing is rescaled."""
    l = acc = 0.0  # noqa: E741
    for k_block, v_block in _blocks(q, k, v):
        s = plain.scores(q, k_block)
        p = jnp.exp(s - s.max(axis=-1, keepdims=True))
        l, acc = l + p.sum(axis=-1, keepdims=True), acc + plain.weighted(p, v_block)  # noqa: E741
    return acc / l


def _scaled(by):
    return lambda q, k, v: plain.attention(q * by(q.shape[-1]), k, v)


EXERCISE = Exercise(
    id="13.2",
    title="The forward kernel",
    kind="write",
    defines="attention_kernel",
    judged="attention",
    cases=_cases,
    reference=lambda q, k, v: plain.attention(q, k, v),
    slips=(
        judges.Slip(
            means="acc is not rescaled when the maximum grows",
            value=lambda q, k, v: _folded(q, k, v, of_acc=False, of_l=True),
            next="multiply acc_ref by exp(old - new) before you add, as you do with l_ref.",
        ),
        judges.Slip(
            means="l is not rescaled when the maximum grows",
            value=lambda q, k, v: _folded(q, k, v, of_acc=True, of_l=False),
            next="multiply l_ref by exp(old - new) before you add, as you do with acc_ref.",
        ),
        judges.Slip(
            means=(
                "neither l nor acc is rescaled, because exp(old - new) is missing or m_ref is overwritten before it "
                "is read"
            ),
            value=lambda q, k, v: _folded(q, k, v, of_acc=False, of_l=False),
            next="read the old maximum first, and multiply both by exp(old - new) before you add.",
        ),
        judges.Slip(
            means="every block has a maximum of its own, so the sums of different blocks do not fit together",
            value=_own_maximum,
            next="compare the block's maximum with m_ref, and rescale what was summed with the old one.",
        ),
        judges.Slip(
            means="m is the maximum of the last block and not of all so far, so sums with a larger one overflow",
            value=lambda q, k, v: _folded(q, k, v, maximum=lambda m, largest: largest),
            next="the new maximum must be jnp.maximum(old, that of the block).",
        ),
        judges.Slip(
            means="m begins with 0, so in rows of scores far below 0 every exp is 0",
            value=lambda q, k, v: _folded(q, k, v, begins=0.0),
            next="begin with -inf, which is smaller than every score.",
        ),
        judges.Slip(
            means="all rows of a block have one maximum, so in a row far below it every exp is 0",
            value=lambda q, k, v: _folded(q, k, v, maximum=_of_all_rows),
            next="take the maximum along axis 1 with keepdims=True, because each row has its own.",
        ),
        judges.Slip(
            means="the result contains only the last block of keys",
            value=_last_block,
            next=(
                "initialize only at j == 0, add in every step, and store m; while the old one is -inf, exp(old - m) "
                "is 0."
            ),
        ),
        judges.Slip(
            means="the scores are not scaled", value=_scaled(lambda d: d**0.5), next="divide the scores by sqrt(D)."
        ),
        judges.Slip(
            means="the scores are divided by D and not by its root",
            value=_scaled(lambda d: d**-0.5),
            next="divide the scores by sqrt(D).",
        ),
        judges.Slip(
            means="the scores are divided by sqrt(128), although D is 64 in these heads",
            value=_scaled(lambda d: (d / 128) ** 0.5),
            next="divide the scores by the root of q_ref.shape[1].",
        ),
        judges.Slip(
            means="the weighted sums are not divided by l",
            value=lambda q, k, v: plain.weighted(
                jnp.exp(plain.scores(q, k) - plain.scores(q, k).max(axis=-1, keepdims=True)), v
            ),
            next="in the last step, write acc_ref divided by l_ref.",
        ),
    ),
    hints=(
        "At the first block of keys, set m to -inf and the sums to 0; at every block, update all three; at the last "
        "one, write acc / l.",
        "Read the old maximum and compute the new one, then p = exp(s - new) and shrink = exp(old - new). Which of "
        "the three refs are multiplied by shrink?",
        "A column is broadcast to all lanes: l_ref[...] = l_ref[...] * shrink + jnp.sum(p, axis=1, keepdims=True). "
        "For acc_ref cut shrink down to D lanes, shrink[:, :d], and l_ref as well when you divide. Store the new "
        "maximum in m_ref.",
    ),
    points=3,
)
