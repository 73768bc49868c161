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
    """Count the blocks that have a score that counts, or also one that does not, position by position."""
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
            9437184: "That is q, k and v. The result has to come out as well.",
            25165824: "A number of bfloat16 has two bytes.",
            6291456: "You count numbers. How many bytes has each?",
            3145728: "That is one head. There are four.",
        },
        why="4 arrays of 4 x 6144 x 64 numbers of 2 bytes.",
        proof=lambda: 4 * _bytes(jnp.bfloat16, HEADS, T, D),
    ),
    "B": Predict(
        value=603979776,
        unit="",
        tolerance=0,
        near={
            301989888: "A number of float32 has four bytes.",
            150994944: "That is one head, or one byte for each score.",
            38654705664: "A score is one number for each query and key: D is summed away.",
        },
        why="4 heads, 6144 x 6144 scores of 4 bytes.",
        proof=lambda: _bytes(jnp.float32, HEADS, T, T),
    ),
    "C": Predict(
        value=78,
        unit="",
        tolerance=0,
        near={
            144: "Those are all. Nearly half of them lie wholly above the diagonal.",
            66: "That leaves out the blocks on the diagonal. Some of their scores count.",
            72: "Half of all. What about the blocks on the diagonal?",
        },
        why="1 + 2 + ... + 12.",
        proof=lambda: _blocks("computed"),
    ),
    "D": Predict(
        value=12,
        unit="",
        tolerance=0,
        near={
            78: "A block below the diagonal is full: all of its scores count.",
            66: "Those are the full blocks. Which have scores that count and scores that do not?",
            144: "Those are all blocks.",
        },
        why="those on the diagonal.",
        proof=lambda: _blocks("masked"),
    ),
}

EXERCISE = Exercise(
    id="13.1",
    title="Predict: what attention moves and skips",
    kind="several",
    defines="numbers",
    asks=Several(parts=PARTS, why="the scores are 48 times the arrays, and half of them do not count."),
    hints=(
        "A and B: the shapes are [heads, T, D] and [heads, T, T]. C and D: draw the square of 12 x 12 blocks.",
        "A score is one number for each query and key. A block of scores is computed if any of them counts.",
        "A: 4 * 4 * 6144 * 64 * 2. B: 4 * 6144 * 6144 * 4. C: 1 + 2 + ... + 12. D: one in each row of blocks.",
    ),
    points=2,
)
