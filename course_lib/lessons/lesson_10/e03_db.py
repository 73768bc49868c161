"""db in the kernel for dw, from the dz that it already computes."""

import jax
import jax.numpy as jnp

from course_lib import cost, judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_10 import layers
from course_lib.lessons.lesson_10.e02_dw import MOST_VMEM, cases

_ONE_TILE = cost.stored_bytes(jax.ShapeDtypeStruct((8, 128), jnp.float32))  # no array: that would start JAX's devices


def _bytes(x, y, g) -> int:
    """Return the bytes that 10.2 moves in blocks of 128 x 128, with the batch rounded up to whole blocks, plus db."""
    (m, k), n = x.shape, g.shape[1]
    whole = -(-m // 128) * 128
    at_most = (n // 128) * whole * k + 2 * (k // 128) * whole * n + k * n + 32 * n
    return at_most * x.dtype.itemsize


def _both(x, y, g):
    return layers.dw(x, y, g), layers.db(y, g)


def _rows_of_blocks(dz):
    """Return the row sums of each 128 x 128 block, added over the batch: 128 for each block of columns."""
    rows, columns = -(-dz.shape[0] // 128), dz.shape[1] // 128
    whole = jnp.pad(dz, ((0, 128 * rows - dz.shape[0]), (0, 0)))
    return whole.reshape(rows, 128, columns, 128).sum(axis=(0, 3)).T.reshape(-1)


EXERCISE = Exercise(
    id="10.3",
    title="db in the same kernel",
    kind="write",
    defines="grad_w_b",
    cases=cases,
    reference=_both,
    budget=judges.Budget(vmem_bytes=MOST_VMEM + _ONE_TILE, hbm_bytes=_bytes),
    slips=(
        judges.Slip(
            means="each block of dz is summed over its columns, but db sums over the batch",
            value=lambda x, y, g: _rows_of_blocks(layers.dz(y, g)),
            next="sum each block over axis 0.",
            output=1,
        ),
        judges.Slip(
            means="the grid leaves a block of db at k = 0 and returns to it at k = 1, when the scratch holds the sum "
            "of the last block of columns",
            value=lambda x, y, g: jnp.tile(layers.db(y, g)[-128:], g.shape[1] // 128),
            next="make j the slowest axis of the grid, so that a block of db stays in VMEM until it is done.",
            output=1,
        ),
        judges.Slip(
            means="each block of dz is added to db once for every block of rows of dw",
            value=lambda x, y, g: x.shape[1] // 128 * layers.db(y, g),
            next="add it for one block of rows of dw only, for example the first.",
            output=1,
        ),
        layers.slope_missing(lambda x, y, g: layers.db(jnp.ones_like(y), g), output=1),
    ),
    hints=(
        "Take two blocks of rows of dw, k = 0 and k = 1, and write down at which steps the kernel reads block "
        "(i, j) of g. How often does it read that block?",
        "A block of db depends on j alone, and the grid may not leave it and come back. So j is the slowest "
        "axis, then k, then i. Add to db at k == 0 only.",
        "The kernel has one more output, with shape (1, N), block (1, 128) and map lambda j, k, i: (0, j). "
        "Accumulate it in a float32 scratch of (1, 128): set it to zero at (k == 0) & (i == 0), add at k == 0, "
        "and store at (k == 0) & (i == last).",
    ),
    points=2,
)
