"""Project: a linear recurrence, ``h[t] = a[t] * h[t - 1] + b[t]``, and its gradient.

Contract  a, b: float32[T, D] -> h: float32[T, D]. The recurrence runs down the rows, from h[-1] = 0; columns do not
          depend on each other. T and D may be any sizes. |a| <= 1; where a is 0, the recurrence starts over.
Gradient  with respect to a and b: with dh[t] = g[t] + a[t + 1] * dh[t + 1], db = dh and da[t] = dh[t] * h[t - 1].
Accuracy  that of sums in float32.
Ideal     every array moves once, 12 T D bytes; 2 T D operations of the VPU are little beside that.
"""

import jax
import jax.numpy as jnp
from jax import lax

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import CYCLES, Golf
from course_lib.checks.kinds.project import Ideal, moved_once
from course_lib.lessons.lesson_18 import rival, values

SMALL = ((264, 128), (64, 256), (100, 384), (3, 130))  # T, D
LARGE = (jax.ShapeDtypeStruct((4096, 2048), jnp.float32),) * 2
IDEAL = Ideal(vector_ops=2 * LARGE[0].size, hbm_bytes=moved_once(LARGE, LARGE[0]))


def reference(a, b):
    """Return h, row after row."""

    def step(before, row):
        h = row[0] * before + row[1]
        return h, h

    return lax.scan(step, jnp.zeros_like(b[0]), (a, b))[1]


def written_for_xla(a, b):
    """Return h by an associative scan, which XLA runs much faster: its time is the one to beat."""

    def joined(first, then):
        """Return two steps, each h -> a h + b, as one."""
        return first[0] * then[0], then[0] * first[1] + then[1]

    return lax.associative_scan(joined, (a, b), axis=0)[1]


def cases() -> list[tuple]:
    """Return factors of both signs, and factors near 1 with zeros among them, at each size."""
    made = []
    for seed, size in enumerate(SMALL):
        a = values.uniform(seed, *size) if seed % 2 else values.uniform(seed, *size, low=0.8)
        a = jnp.where(values.uniform(20 + seed, *size) > 0.9, 0, a)
        made.append((a, values.uniform(10 + seed, *size)))
    return made


def _restarted(a, b, every: int = 8):
    """Return h if the recurrence forgets at every eighth row what came before."""
    return reference(jnp.where(jnp.arange(len(a))[:, None] % every == 0, 0, a), b)


def _late(a, b):
    """Return h if each row is multiplied by the factor of the row before."""
    return reference(jnp.roll(a, 1, axis=0), b)


def _shifted_gradient(a, b, g):
    """Return db if dh[t] takes a[t] in place of a[t + 1]."""
    return reference(a[::-1], g[::-1])[::-1]


def _own_rows(a, b, g):
    """Return da from h[t] in place of h[t - 1]."""
    dh = jax.vjp(reference, a, b)[1](g)[1]
    return dh * reference(a, b)


EXERCISE = Exercise(
    id="18.5",
    title="Project: a linear recurrence",
    kind="project",
    defines="recurrence",
    cases=cases,
    reference=reference,
    slips=(
        judges.Slip(
            means="the recurrence starts over at every eighth row",
            value=_restarted,
            next="carry the last row of a tile on into the next one.",
        ),
        judges.Slip(
            means="h is multiplied by the factor of the row before",
            value=_late,
            next="use row t of a for the step from h[t - 1] to h[t].",
        ),
    ),
    gradient=judges.Gradient(
        slips=(
            judges.Slip(
                output="db",
                means="dh[t] is computed with a[t] instead of a[t + 1]",
                value=_shifted_gradient,
                next="multiply by a[t] after row t, on the way to row t - 1.",
            ),
            judges.Slip(
                output="da",
                means="da[t] is dh[t] times h[t], not h[t - 1]",
                value=_own_rows,
                next="shift h down by one row. Above the first row of a block stands the last one of the block before.",
            ),
        ),
    ),
    golf=Golf(unit=CYCLES, par=210_000, at=lambda: LARGE),
    project=rival.against("18.5", IDEAL),
    hints=(
        "A block of rows needs one row of what came before it. Where can that row wait between two grid steps?",
        "Let the grid be (columns, rows) with the rows last, keep the last h of a block in VMEM scratch, and set it to "
        "zero at the first block of rows.",
        "The gradient is the same recurrence from the last row up. Its last block may reach past the end of the "
        "arrays, and there a and g are garbage: let such rows contribute 0. For h[t - 1] in row 0 of a block, pass h a "
        "second time with blocks of 8 rows.",
    ),
    points=6,
)
