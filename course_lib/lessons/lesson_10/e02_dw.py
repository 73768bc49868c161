"""dw = x.T @ dz: the reduction over the batch is innermost, and its last block is ragged."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_10 import layers

SIZES = ({"M": 300, "K": 256, "N": 384}, {"M": 640, "K": 128, "N": 128})  # all judges see the ragged one
MOST_VMEM = 640 * 2**10


def cases() -> list[tuple]:
    """Return x, y and g, with batches that blocks of 128 do and do not divide."""
    return layers.with_zeros_in_y(("x: T[M,K]", "y: T[M,N]", "g: T[M,N]"), SIZES)


def _whole_blocks(x, y, g):
    whole = x.shape[0] // 128 * 128
    return layers.dw(x[:whole], y[:whole], g[:whole])


EXERCISE = Exercise(
    id="10.2",
    title="dw: a sum over the batch",
    kind="write",
    defines="grad_w",
    cases=cases,
    reference=layers.dw,
    budget=judges.Budget(vmem_bytes=MOST_VMEM),
    slips=(
        layers.slope_missing(lambda x, y, g: layers.dw(x, jnp.ones_like(y), g)),
        judges.Slip(
            means="only whole blocks are summed, so of the 300 rows, rows 256 to 299 are left out",
            value=_whole_blocks,
            next="use pl.cdiv(m, 128) blocks, which include the last one, and mask the rows past its end.",
        ),
        judges.Slip(
            means="dw is divided by the batch size. If the loss is a mean, its cotangent already has that factor",
            value=lambda x, y, g: layers.dw(x, y, g) / x.shape[0],
            next="sum over the batch, and do not divide.",
        ),
    ),
    hints=(
        "dw has the shape [K, N], so two axes of the grid choose its block. The third axis is that of the sum.",
        "The axis of the sum goes last, so the grid is (n, k, m), counted in blocks. A step reads block (i, k) "
        "of x and block (i, j) of y and g, and adds to block (k, j) of dw.",
        "Rows past the end of the batch would go into every element. The rows that exist are those with i * 128 "
        "+ broadcasted_iota(jnp.int32, (128, 128), 0) < M. Mask x and dz with jnp.where, accumulate in float32 "
        "scratch, and round at the last step.",
    ),
    points=3,
)
