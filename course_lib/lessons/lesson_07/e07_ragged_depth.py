"""A matmul whose depth the blocks do not divide, with y transposed: y[N, K]."""

import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.lessons.lesson_07 import bfloat16_dots


def _first_sum(k):
    def expect(x, y):
        return jnp.dot(x[:32, : 128 * (k + 1)], y[:128, : 128 * (k + 1)].T, preferred_element_type=jnp.float32)

    return judges.Probe(
        scratch="acc_ref",
        place=0,
        after=(0, 0, k),
        grid=(1, 2, 2),
        expect=expect,
        means="the rows of x times the rows of y, summed along K so far",
        next="which axis of each block runs along K, and which of its columns should this step keep?",
    )


def _without_the_ragged_edge(x, y):
    whole = x.shape[1] // 128 * 128
    return jnp.dot(x[:, :whole], y[:, :whole].T, preferred_element_type=jnp.float32).astype(x.dtype)


EXERCISE = Exercise(
    id="07.7",
    title="A ragged K, and a transposed y",
    kind="write",
    defines="against_rows_kernel",
    judged="against_rows",
    inputs=("x: bf16[M,K]", "y: bf16[N,K]"),
    sizes=(
        {"M": 32, "K": 256, "N": 256},
        {"M": 40, "K": 300, "N": 70},
        {"M": 5, "K": 100, "N": 130},
    ),
    reference=lambda x, y: jnp.dot(x, y.T, preferred_element_type=jnp.float32).astype(x.dtype),
    probes=(_first_sum(0), _first_sum(1)),
    slips=(
        judges.Slip(
            means="the last block of K is missing, because NaN from beyond the end of x and y fills its whole product",
            value=_without_the_ragged_edge,
            next="mask the blocks before you multiply: removing NaN from their product removes its values too.",
        ),
    ),
    also=(
        bfloat16_dots.demanded(
            lambda: EXERCISE.arguments(), "mask the bfloat16 blocks as they are, and multiply them in bfloat16."
        ),
    ),
    hints=(
        "K is the last axis of both blocks. Past the end of K, both of them hold garbage.",
        "The first depth - 128 * pl.program_id(2) of this step's columns belong to the array. Mask the others with "
        "jnp.where, in x and in y.",
        "jax.lax.dot_general(x, y, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32) contracts the last "
        "axes, and broadcasted_iota(jnp.int32, block.shape, 1) numbers the columns.",
    ),
    points=3,
)
