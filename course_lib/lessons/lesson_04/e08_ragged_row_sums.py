"""Row sums of arrays that the blocks do not divide."""

import jax.numpy as jnp

from course_lib.checks.exercise import Exercise

EXERCISE = Exercise(
    id="04.8",
    title="Row sums with a ragged edge",
    kind="write",
    defines="row_sum_kernel",
    judged="row_sums",
    inputs=("x: f32[M,N]",),
    sizes=({"M": 16, "N": 384}, {"M": 16, "N": 300}, {"M": 21, "N": 130}, {"M": 5, "N": 64}),
    reference=lambda x: jnp.sum(x, axis=1, keepdims=True),
    hints=(
        "The kernel does three things: it sets o_ref to zero at the first step of axis 1, selects the elements "
        "that lie inside the array, and adds their row sums to o_ref.",
        "jax.lax.broadcasted_iota(jnp.int32, x_ref.shape, 1) counts the columns of the block from 0. This step's "
        "block begins at column 128 * pl.program_id(1) of the array.",
        "Compute jnp.where(column < columns, x_ref[...], 0), then jnp.sum(..., axis=1, keepdims=True), and add the "
        "result to o_ref.",
    ),
    points=2,
)
