"""Project: quantize an array to int8, with a scale for each row.

Contract  x: bfloat16[M, N] -> q: int8[M, N] and s: float32[M], with s[m] the largest |x[m, n]| divided by 127, and q
          x / s, rounded to the nearest integer. A row of zeros has the scale 0, and q is 0 there. M and N are multiples
          of 128.
Accuracy  s as float32 division gives it; q exactly, except where x / s is so close to the middle of two integers that
          either is right.
Ideal     every array moves once, about 3 M N bytes.
"""

import jax
import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import CYCLES, Golf
from course_lib.checks.kinds.project import Ideal, moved_once
from course_lib.lessons.lesson_18 import rival, values

MOST = 127
SMALL = ((256, 384), (128, 128), (384, 640), (128, 1152))  # M, N
LARGE = (jax.ShapeDtypeStruct((8192, 4096), jnp.bfloat16),)
IDEAL = Ideal(
    hbm_bytes=moved_once(
        LARGE, jax.ShapeDtypeStruct((8192, 4096), jnp.int8), jax.ShapeDtypeStruct((8192,), jnp.float32)
    )
)


def reference(x):
    """Return q and s."""
    x = x.astype(jnp.float32)
    s = jnp.max(jnp.abs(x), axis=1) / MOST
    return _divided(x, s), s


def _divided(x, s):
    return jnp.round(x / jnp.where(s == 0, 1, s)[:, None]).astype(jnp.int8)


def cases() -> list[tuple]:
    """Return rows of very different sizes, at each size; every ninth row is zero."""
    made = []
    for seed, (m, n) in enumerate(SMALL):
        size = 2.0 ** values.integers(20 + seed, m, 1, low=-20, high=20)
        size = jnp.where(jnp.arange(m)[:, None] % 9 == 4, 0, size)
        made.append(((values.uniform(seed, m, n) * size).astype(jnp.bfloat16),))
    return made


def _largest(x):
    """Return q if the scale is that of the largest value, not of the largest absolute value."""
    x = x.astype(jnp.float32)
    s = jnp.max(x, axis=1) / MOST
    return jnp.clip(_divided(x, s), -128, 127)


def _truncated(x):
    """Return q if the fractions are cut off."""
    x = x.astype(jnp.float32)
    s = jnp.max(jnp.abs(x), axis=1) / MOST
    return (x / jnp.where(s == 0, 1, s)[:, None]).astype(jnp.int8)


EXERCISE = Exercise(
    id="18.4",
    title="Project: int8 with a scale for each row",
    kind="project",
    defines="quantize",
    cases=cases,
    reference=reference,
    slips=(
        judges.Slip(
            means="fractions are cut off, not rounded",
            value=_truncated,
            next="round with jnp.round before the conversion to int8.",
            output=0,
        ),
        judges.Slip(
            means="the scale is that of the largest value, not of the largest absolute value",
            value=_largest,
            next="take jnp.abs(x) before the maximum.",
            output=0,
        ),
    ),
    golf=Golf(unit=CYCLES, par=230_000, at=lambda: LARGE),
    project=rival.against("18.4", IDEAL),
    hints=(
        "XLA reads x twice, once for the maxima and once for the division. A block of whole rows needs to be read only "
        "once.",
        "The scales are a column in the kernel and a row in HBM: write the block (1, rows) of an output [1, M], and "
        "reshape it outside the kernel.",
        "Multiply by 127 / largest, one reciprocal a row, instead of dividing every element, and make the blocks large "
        "enough for full bandwidth.",
    ),
    points=3,
)
