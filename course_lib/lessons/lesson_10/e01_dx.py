"""dx = dz @ w.T, with the reduction over the columns of g innermost."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_10 import layers


def _cases() -> list[tuple]:
    return layers.with_zeros_in_y(
        ("w: T[K,N]", "y: T[M,N]", "g: T[M,N]"),
        ({"M": 150, "K": 256, "N": 384}, {"M": 64, "K": 128, "N": 512}),
    )


def _blocks_transposed(w):
    """Return w with each of its 128 x 128 blocks transposed in place."""
    k, n = w.shape
    return w.reshape(k // 128, 128, n // 128, 128).transpose(0, 3, 2, 1).reshape(k, n)


EXERCISE = Exercise(
    id="10.1",
    title="dx in blocks",
    kind="write",
    defines="dx_kernel",
    judged="grad_x",
    cases=_cases,
    reference=layers.dx,
    slips=(
        layers.slope_missing(lambda w, y, g: layers.dx(w, jnp.ones_like(y), g)),
        judges.Slip(
            means="g is multiplied by y, but relu's slope is 1 or 0, and not y",
            value=lambda w, y, g: layers.dx(w, jnp.ones_like(y), g * y),
            next=layers.MULTIPLY,
        ),
        judges.Slip(
            means="each block of w is used as it is stored, but dz @ w.T needs its transpose",
            value=lambda w, y, g: layers.dx(_blocks_transposed(w), y, g),
            next="use product(dz, w_ref[...], 1, 1), which sums over the second axis of both.",
        ),
        judges.Slip(
            means="the sum over j is missing, and dx comes from the last block of columns alone",
            value=lambda w, y, g: layers.dx(w[:, -128:], y[:, -128:], g[:, -128:]),
            next="set acc_ref to zero at the first j only, and add to it at every j.",
        ),
    ),
    hints=(
        "The kernel has the three parts of lesson 7's matmul: zero, add, store. Two things differ: the kernel "
        "computes its left operand itself, and its right operand is the transpose of the stored w.",
        "dz = jnp.where(y_ref[...] > 0, g_ref[...], 0). The sum runs over the last axis of the grid, whose index "
        "is pl.program_id(2).",
        "At j == 0, set acc_ref to zero. At each j, add: acc_ref[...] += product(dz, w_ref[...], 1, 1). At the "
        "last j, store: dx_ref[...] = acc_ref[...].astype(dx_ref.dtype).",
    ),
    points=2,
)
