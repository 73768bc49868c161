"""The softmax of rows whose last block overhangs."""

import jax
import jax.numpy as jnp

from course_lib import judges
from course_lib.checks.exercise import Exercise
from course_lib.checks.inputs import arguments, far_from_zero


def _zeros_in_the_tail(x):
    tail = jnp.zeros((x.shape[0], -x.shape[1] % 128), x.dtype)
    return jax.nn.softmax(jnp.concatenate([x, tail], axis=1), axis=1)[:, : x.shape[1]]


def _zeros_in_the_maximum(x):
    largest = jnp.maximum(x.max(axis=1, keepdims=True), 0 if x.shape[1] % 128 else -jnp.inf)
    e = jnp.exp(x - largest)
    return e / e.sum(axis=1, keepdims=True)


def _one_maximum_a_block(x):
    blocks = [x[top : top + 8] for top in range(0, x.shape[0], 8)]
    e = jnp.concatenate([jnp.exp(block - block.max()) for block in blocks])
    return e / e.sum(axis=1, keepdims=True)


def _rows() -> list[tuple]:
    """Return rows that no fixed offset brings into exp's range, and that any padding but -inf exceeds."""
    sizes = ({"M": 16, "N": 256}, {"M": 20, "N": 300}, {"M": 5, "N": 70})
    return [*arguments(("x: f32[M,N]",), sizes, within=(-1300, -1100)), (far_from_zero((8, 130), -1e30),)]


EXERCISE = Exercise(
    id="08.2",
    title="A softmax with a tail",
    kind="write",
    defines="softmax_kernel",
    judged="softmax",
    cases=_rows,
    reference=lambda x: jax.nn.softmax(x, axis=1),
    slips=(
        judges.Slip(
            means="the tail was masked with a value larger than x, as 0 and -1e4 are here, so it counts",
            value=_zeros_in_the_tail,
            next="which value is neutral for a maximum, and has an exponential of 0?",
        ),
        judges.Slip(
            means="the 0 in the masked tail is the largest value of each row, so every exp is 0, and 0 / 0 is NaN",
            value=_zeros_in_the_maximum,
            next="mask with the value that is neutral for a maximum, and mask before the maximum is taken.",
        ),
        judges.Slip(
            means="no maximum is subtracted, so exp of values far below 0 is 0, and 0 / 0 is NaN",
            value=lambda x: jnp.exp(x) / jnp.exp(x).sum(axis=1, keepdims=True),
            next="subtract the largest value of each row before exp.",
        ),
        judges.Slip(
            means="all rows of a block share one maximum, so in a row far below it every exp is 0, and 0 / 0 is NaN",
            value=_one_maximum_a_block,
            next="take the maximum along axis 1, with keepdims=True, because each row has its own.",
        ),
    ),
    hints=(
        "Two operations mix the elements of a row, a maximum and a sum. The mask must come before the first of them.",
        "Select between x and -jnp.inf with jnp.where, where the condition compares the broadcasted_iota along axis 1 "
        "with columns. What is exp(-inf)?",
        "column = broadcasted_iota(jnp.int32, x_ref.shape, 1); x = where(column < columns, x_ref[...], -inf). Then "
        "compute the softmax as usual: exp of x minus the row's maximum, divided by the sum of that. The -inf become "
        "0 by themselves.",
    ),
    points=2,
)
