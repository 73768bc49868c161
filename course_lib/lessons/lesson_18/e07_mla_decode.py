"""Project: decoding with multi-head latent attention, in which all heads read the same short rows.

Contract  q: bfloat16[B, H, 576], c: bfloat16[B, T, 576], n: int32[B] with 1 <= n <= T -> o: bfloat16[B, H, 512]. A
          row of the cache c is the key of all heads, and its first 512 elements are their value as well. With
          p = softmax(q[b] @ c[b].T / sqrt(192)) over the first n[b] rows, o[b] = p @ c[b, :, :512]. The rows from n[b]
          on hold finite garbage. H is a multiple of 8 and T of 256.
Accuracy  scores and sums in float32; p may be rounded to bfloat16 before its matmul.
Ideal     every array moves once: the cache has 1,152 bytes a token.
"""

import jax
import jax.numpy as jnp
import numpy as np

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import CYCLES, Golf
from course_lib.checks.kinds.project import Ideal, moved_once
from course_lib.lessons.lesson_18 import rival, values

WIDTH, OF_VALUE = 576, 512
SCALE = 192**-0.5
SMALL = ((2, 16, 512, (300, 512)), (3, 8, 256, (1, 255, 128)), (1, 16, 1280, (1025,)), (2, 16, 768, (256, 700)))


def shapes(b: int, h: int, t: int) -> tuple:
    """Return q and c of these sizes without values, and lengths that fill the cache."""
    q, c = (jax.ShapeDtypeStruct((b, rows, WIDTH), jnp.bfloat16) for rows in (h, t))
    return q, c, np.full(b, t, np.int32)


LARGE = shapes(16, 16, 4096)
IDEAL = Ideal(
    flops=2 * 16 * 16 * 4096 * (WIDTH + OF_VALUE),
    hbm_bytes=moved_once(LARGE, jax.ShapeDtypeStruct((16, 16, OF_VALUE), jnp.bfloat16)),
)


def reference(q, c, n):
    """Return o, from scores of the whole cache."""
    s = jnp.einsum("bhd,btd->bht", q, c, preferred_element_type=jnp.float32) * SCALE
    s = jnp.where(jnp.arange(c.shape[1]) < n[:, None, None], s, -jnp.inf)
    p = jax.nn.softmax(s, axis=-1).astype(jnp.bfloat16)
    o = jnp.einsum("bht,btd->bhd", p, c[..., :OF_VALUE], preferred_element_type=jnp.float32)
    return o.astype(jnp.bfloat16)


def cases() -> list[tuple]:
    """Return q, c and n at each size; beyond n the cache holds values that would win every maximum."""
    made = []
    for seed, (b, h, t, lengths) in enumerate(SMALL):
        n = jnp.array(lengths, jnp.int32)
        q = values.uniform(seed, b, h, WIDTH, low=-0.5, high=1)
        c = values.uniform(10 + seed, b, t, WIDTH)
        garbage = values.uniform(20 + seed, b, t, WIDTH, low=3, high=4)
        c = jnp.where(jnp.arange(t)[:, None] < n[:, None, None], c, garbage)
        made.append((q.astype(jnp.bfloat16), c.astype(jnp.bfloat16), n))
    return made


def _all_rows(q, c, n):
    """Return o if every row of the cache counts."""
    return reference(q, c, jnp.full_like(n, c.shape[1]))


def _one_more(q, c, n):
    """Return o if row n counts too."""
    return reference(q, c, jnp.minimum(n + 1, c.shape[1]))


EXERCISE = Exercise(
    id="18.7",
    title="Project: decoding with latent attention",
    kind="project",
    defines="mla_decode",
    cases=cases,
    reference=reference,
    slips=(
        judges.Slip(
            means="the rows from n[b] on count as well",
            value=_all_rows,
            next="give the scores of the rows from n[b] on the value -inf before the maximum.",
        ),
        judges.Slip(
            means="one row too many counts",
            value=_one_more,
            next="row number n[b] is the first that does not count: compare with <.",
        ),
    ),
    golf=Golf(unit=CYCLES, par=190_000, at=lambda: LARGE, floor=IDEAL.cycles() * 9 // 10),
    project=rival.against("18.7", IDEAL),
    hints=(
        "Keys and values are the same rows, so one copy of a block of c serves both matmuls, and all heads.",
        "The report says that XLA transposes c before your kernel: 576 is no multiple of 128, but T is, so XLA stores "
        "tokens along the lanes. Pass jnp.swapaxes(c, 1, 2), which is free then, and let a block be (576, tokens).",
        "n comes by scalar prefetch. Let the index map stop at the last block that counts, so that nothing beyond it "
        "is copied, and let the steps after it do nothing.",
    ),
    points=6,
)
