"""Bytes of attention's arrays and scores, and the blocks of a causal kernel."""

import jax
import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

HEADS, T, D, BLOCK = 4, 6144, 64, 512


def _bytes(dtype, *shape: int) -> int:
    array = jax.ShapeDtypeStruct(shape, dtype)
    return array.size * array.dtype.itemsize


def _blocks(kind: str) -> int:
    """Count the blocks in which a score counts or, if ``kind`` is "masked", those in which another also does not."""
    found = 0
    for i in range(0, T, BLOCK):
        for j in range(0, T, BLOCK):
            some, all_of_it = j <= i + BLOCK - 1, j + BLOCK - 1 <= i
            found += some and not (kind == "masked" and all_of_it)
    return found


PARTS = {
    "A": Predict(
        value=12582912,
        unit="",
        tolerance=0,
        near={
            9437184: "That is q, k and v, but the result has to come out as well.",
            25165824: "That is four bytes for each element, but bfloat16 has two.",
            6291456: "You count elements, but the question asks for bytes.",
            3145728: "That is one head, and there are four.",
        },
        why="there are 4 arrays of 4 x 6144 x 64 elements of 2 bytes.",
        proof=lambda: 4 * _bytes(jnp.bfloat16, HEADS, T, D),
    ),
    "B": Predict(
        value=603979776,
        unit="",
        tolerance=0,
        near={
            301989888: "That is two bytes for each score, but float32 has four.",
            150994944: "That is one head, or one byte for each score.",
            38654705664: "A score is one value for each query and key, because D is summed away.",
        },
        why="there are 4 heads of 6144 x 6144 scores of 4 bytes.",
        proof=lambda: _bytes(jnp.float32, HEADS, T, T),
    ),
    "C": Predict(
        value=78,
        unit="",
        tolerance=0,
        near={
            144: "Those are all blocks, and nearly half of them lie wholly above the diagonal.",
            66: "That leaves out the blocks on the diagonal, although some of their scores count.",
            72: "That is half of all blocks, but what about those on the diagonal?",
        },
        why="it is 1 + 2 + ... + 12.",
        proof=lambda: _blocks("computed"),
    ),
    "D": Predict(
        value=12,
        unit="",
        tolerance=0,
        near={
            78: "A block below the diagonal is full, so all of its scores count.",
            66: "Those are the full blocks, which need no mask.",
            144: "Those are all blocks, most of which are full or empty.",
        },
        why="only the blocks on the diagonal need one.",
        proof=lambda: _blocks("masked"),
    ),
}

EXERCISE = Exercise(
    id="13.1",
    title="Predict: what attention moves and skips",
    kind="several",
    defines="numbers",
    asks=Several(parts=PARTS, why="the scores have 48 times the bytes of the arrays, and half of them do not count."),
    hints=(
        "For A and B, the shapes are [heads, T, D] and [heads, T, T]. For C and D, draw the square of 12 x 12 blocks.",
        "A score is one value for each query and key, and a block of scores is computed if any of them counts.",
        "A is 4 * 4 * 6144 * 64 * 2, and B is 4 * 6144 * 6144 * 4. C is the sum of 1 to 12, and D is one block for "
        "each row of blocks.",
    ),
    points=2,
)
