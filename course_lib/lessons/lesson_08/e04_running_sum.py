"""A running sum down the rows, with a carry from block to block."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise


def _carried(j, i):
    def expect(x):
        return x[: 32 * (i + 1), 128 * j : 128 * (j + 1)].sum(axis=0, keepdims=True)

    return judges.Probe(
        scratch="carry_ref",
        place=0,
        after=(j, i),
        grid=(3, 3),
        expect=expect,
        means="the sum of all rows of this column of blocks so far",
        next="what must be added to the first row of the next block, and what at the top of a new column?",
    )


def _each_block_alone(x):
    blocks = [jnp.cumsum(x[top : top + 32], axis=0) for top in range(0, x.shape[0], 32)]
    return jnp.concatenate(blocks)


def _carried_too_early(x):
    blocks = [x[top : top + 32] for top in range(0, x.shape[0], 32)]
    own = jnp.concatenate([jnp.broadcast_to(block.sum(axis=0), block.shape) for block in blocks])
    return jnp.cumsum(x, axis=0) + own


EXERCISE = Exercise(
    id="08.4",
    title="A running sum",
    kind="write",
    defines="running_kernel",
    judged="running_sum",
    inputs=("x: f32[M,N]",),
    sizes=({"M": 96, "N": 384}, {"M": 100, "N": 256}, {"M": 20, "N": 128}),
    reference=lambda x: jnp.cumsum(x, axis=0),
    probes=(_carried(0, 0), _carried(0, 1), _carried(1, 0)),
    slips=(
        judges.Slip(
            means="every block starts its sum at 0",
            value=_each_block_alone,
            next="add the carry, and leave the last row of the block's result in carry_ref.",
        ),
        judges.Slip(
            means="the carry already contains this block's own sum when it is added",
            value=_carried_too_early,
            next="add the carry first, and update it afterwards.",
        ),
    ),
    hints=(
        "The last row of a finished block is the sum of all rows before the next block.",
        "carry_ref must be 0 where a column of blocks begins, which is when pl.program_id(1) == 0. The tail comes "
        "last, so no row that is kept depends on it.",
        "total = carry_ref[...] + so_far(x_ref[...]). Write total to o_ref, and total[-1:] to carry_ref.",
    ),
    points=2,
)
