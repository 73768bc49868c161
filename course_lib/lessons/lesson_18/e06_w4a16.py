"""Project: a matmul whose weights have four bits, W4A16, for the few rows of decoding.

Contract  x: bfloat16[M, K], q: int4[K, N], s: bfloat16[K / 128, N] -> bfloat16[M, N], x times the weights
          q[k, n] * s[k // 128, n]. M is at most 64; K is a multiple of 512 and N of 256.
Accuracy  weights rounded to bfloat16, sums in float32, and one rounding of the result.
Ideal     every array moves once, K N / 2 bytes of it weights.
"""

import jax
import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import CYCLES, Golf
from course_lib.checks.kinds.project import Ideal, moved_once
from course_lib.lessons.lesson_18 import rival, values

GROUP = 128  # rows of q that share a scale
SMALL = ((16, 1024, 512), (8, 512, 256), (5, 1536, 768), (64, 512, 1280))  # M, K, N


def shapes(m: int, k: int, n: int) -> tuple:
    """Return x, q and s of these sizes without values."""
    x = jax.ShapeDtypeStruct((m, k), jnp.bfloat16)
    return x, jax.ShapeDtypeStruct((k, n), jnp.int4), jax.ShapeDtypeStruct((k // GROUP, n), jnp.bfloat16)


LARGE = shapes(16, 4096, 14336)
IDEAL = Ideal(flops=2 * 16 * 4096 * 14336, hbm_bytes=moved_once(LARGE, jax.ShapeDtypeStruct((16, 14336), jnp.bfloat16)))


def reference(x, q, s):
    """Return x @ (q * s), with the weights in bfloat16 and the sums in float32."""
    w = (q.astype(jnp.bfloat16).reshape(-1, GROUP, q.shape[1]) * s[:, None]).reshape(q.shape)
    return jnp.dot(x, w, preferred_element_type=jnp.float32).astype(jnp.bfloat16)


def cases() -> list[tuple]:
    """Return x, q and s at each size; the scales of neighboring groups differ much."""
    made = []
    for seed, (m, k, n) in enumerate(SMALL):
        x = values.uniform(seed, m, k, dtype="bfloat16")
        q = values.integers(10 + seed, k, n, low=-8, high=8, dtype="int4")
        made.append((x, q, values.uniform(20 + seed, k // GROUP, n, low=0.01, high=1, dtype="bfloat16")))
    return made


def _first_scale(x, q, s):
    """Return the result if every group takes the scale of the first."""
    return reference(x, q, jnp.broadcast_to(s[:1], s.shape))


def _unsigned(x, q, s):
    """Return the result if the four bits are read as 0 to 15, less 8."""
    plain = jnp.where(q.astype(jnp.int8) < 0, q.astype(jnp.int8) + 16, q.astype(jnp.int8)) - 8
    w = (plain.astype(jnp.bfloat16).reshape(-1, GROUP, q.shape[1]) * s[:, None]).reshape(q.shape)
    return jnp.dot(x, w, preferred_element_type=jnp.float32).astype(jnp.bfloat16)


EXERCISE = Exercise(
    id="18.6",
    title="Project: weights of four bits",
    kind="project",
    defines="w4a16",
    cases=cases,
    reference=reference,
    slips=(
        judges.Slip(
            means="all groups are scaled by the scales of the first",
            value=_first_scale,
            next="let group g of 128 rows of q take row g of s, counted from the block's first group.",
        ),
        judges.Slip(
            means="the four bits are read without their sign",
            value=_unsigned,
            next="read them as int4, which has the values -8 to 7.",
        ),
    ),
    golf=Golf(unit=CYCLES, par=100_000, at=lambda: LARGE, floor=IDEAL.cycles() * 9 // 10),
    project=rival.against("18.6", IDEAL),
    hints=(
        "XLA writes the weights to HBM in bfloat16, and reads them again. In a kernel they can be converted in VMEM, "
        "just before they are multiplied.",
        "A scale belongs to 128 rows of q. So multiply x by one group of rows at a time, without scales, and scale the "
        "M x N results: that is far fewer multiplications than scaling the weights.",
        "Choose the blocks of q so large that their copies run at full bandwidth, with K whole if you can: then there "
        "is no accumulator in VMEM, and a step writes its result once.",
    ),
    points=5,
)
