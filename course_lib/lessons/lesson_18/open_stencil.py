"""An open project, without an answer of ours: sixteen steps of a stencil in one kernel.

Contract  u: float32[M, N] -> float32[M, N]. In each of STEPS steps every inner element becomes the mean of its four
          neighbors; the first and last row and column keep their values. M and N are multiples of 128.
Accuracy  that of float32 arithmetic.
Ideal     four VPU operations per element and step (three sums and a product), which take a little longer on a v5e than
          reading u once and writing it once, 8 M N bytes.
"""

import jax
import jax.numpy as jnp

from course_lib import checks, chips, judges
from course_lib.checks.kinds.project import Ideal, moved_once
from course_lib.lessons.lesson_18 import rival, values

STEPS = 16
SMALL = ((256, 768), (128, 128), (384, 256))  # M, N
LARGE = (jax.ShapeDtypeStruct((2048, 2048), jnp.float32),)
IDEAL = Ideal(vector_ops=4 * STEPS * LARGE[0].size, hbm_bytes=moved_once(LARGE, LARGE))


def reference(u, steps: int = STEPS):
    """Return u after ``steps`` steps, one after another."""
    for _ in range(steps):
        mean = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u = u.at[1:-1, 1:-1].set(mean)
    return u


def cases() -> list[tuple]:
    """Return random u at each size."""
    return [(values.uniform(seed, *size),) for seed, size in enumerate(SMALL)]


def _around_the_edge(u):
    """Return u if the neighbors of the border come from the opposite side, and the border changes too."""
    for _ in range(STEPS):
        u = 0.25 * sum(jnp.roll(u, by, axis) for axis in (0, 1) for by in (1, -1))
    return u


def _in_blocks_of_columns(u):
    """Return u if each block of 128 columns keeps its own border."""
    parts = jnp.split(u, u.shape[1] // 128, axis=1)
    return jnp.concatenate([reference(part) for part in parts], axis=1)


SLIPS = (
    judges.Slip(
        means="one step too few is taken",
        value=lambda u: reference(u, STEPS - 1),
        next="take 16 steps.",
    ),
    judges.Slip(
        means="the border changes: rolling an array brings the opposite side in",
        value=_around_the_edge,
        next="after each step, put the old values back into the first and last row and column.",
    ),
    judges.Slip(
        means="each block of 128 columns keeps its own border",
        value=_in_blocks_of_columns,
        next="read 16 columns more on either side of a block, and keep only the border of the whole array.",
    ),
)
HINTS = (
    "Sixteen steps on an array that stays in VMEM move it once. A block of it needs 16 more rows, or columns, on "
    "each side where it has a neighbor, because garbage creeps in by one row per step.",
    "Moving rows by one is cheap, and moving lanes by one keeps the XLU busy: lesson 6 has the prices. How could "
    "the neighbors of an element lie in another register instead of another lane?",
    "Let lane l hold the rows l * M / 128 to (l + 1) * M / 128 - 1 of a strip of columns: "
    "x_ref[pl.ds(i, 128, stride=M // 128), :].T is row i of every lane. Then only the first and the last of these "
    "rows need a roll along the lanes.",
)


def declare() -> None:
    """Declare it as a project of the reader's own, "own.stencil". Par is half of XLA's time."""
    stored = rival.xla("stencil")
    checks.own_project(
        "stencil",
        reference=reference,
        cases=cases,
        at=lambda: LARGE,
        vector_ops=IDEAL.vector_ops,
        par=int(stored.seconds / 2 * chips.chip("v5e").clock_hz),
        slips=SLIPS,
        hints=HINTS,
        xla=(stored.seconds, stored.by),
    )
