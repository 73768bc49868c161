"""Three published measurements, to predict."""

import jax.numpy as jnp

from course_lib import chips, roofline
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_03.product import array, square

PRICE_S = 0.33e-6  # per step, derived in the lesson from the published times of blocks of 128


def _triangle_seconds() -> float:
    """Return the seconds of a lower-triangular matmul of 16384; blocks above the diagonal cost only grid steps."""
    chip, steps_along_k = chips.chip("v5e"), 16384 // 1024
    arithmetic, price = 2 * 512 * 1024 * 512 / chip.bf16_flops, PRICE_S
    blocks = [(i, j) for i in range(16384 // 512) for j in range(16384 // 512)]
    return sum(steps_along_k * (price + (arithmetic if j <= i else 0)) for i, j in blocks)


GUESSES = {
    "XLA, 16384": Predict(
        value=46.95,
        published=46.953,
        unit="ms",
        tolerance=0.25,
        near={
            22.3: "A multiplication and an addition are two operations, not one.",
            1.96: "That is the time of the bytes. Which roof is the lower one at this size?",
            89.3: "That is twice too long, because 2 N^3 counts both operations already, and so does the peak.",
            131: "Did you charge for grid steps? This matmul was XLA's own.",
        },
        why="arithmetic, and 5 % on top.",
        proof=lambda: roofline.predict(jnp.dot, *square(16384)).seconds * 1e3,
    ),
    "triangle": Predict(
        value=28.648,
        published=28.648,
        unit="ms",
        tolerance=0.1,
        near={
            44.7: "That computes every block, but those above the diagonal are skipped.",
            50.1: "That computes every block, but those above the diagonal are skipped.",
            5.41: "That is the price of the steps alone, but in half of them the MXU has work as well.",
            22.3: "That is the arithmetic alone. What does a step cost that does nothing?",
            25.0: "That charges for half of the steps, but the grid has all of them, even where a step skips its work.",
            16.9: "A multiplication and an addition are two operations, not one.",
            11.2: "Two slips: a multiplication and an addition are two operations, and steps cost as well.",
        },
        why="half of the arithmetic, and all of the steps.",
        proof=lambda: _triangle_seconds() * 1e3,
    ),
    "decode": Predict(
        value=0.366,
        published=0.366,
        unit="ms",
        tolerance=0.25,
        near={
            0.00136: "That is the arithmetic alone. How many bytes of weights have to come first?",
            0.0409: "That is one expert's matrix, but eight tokens go to eight experts.",
            0.164: "That is right for weights of one byte, but these are bfloat16.",
            0.655: "That is right for float32, but these are bfloat16.",
        },
        why="eight matrices of weights.",
        proof=lambda: (
            roofline.predict(
                lambda x, w: jnp.einsum("gbd,gdf->gbf", x, w), array(8, 1, 4096), array(8, 4096, 4096)
            ).seconds
            * 1e3
        ),
    ),
}

EXERCISE = Exercise(
    id="03.8",
    title="Predict, then look",
    kind="several",
    defines="guesses",
    asks=Several(parts=GUESSES, why="all three are as close to the measured times as asked."),
    hints=(
        "Work out the arithmetic plus the steps, and the bytes. These two overlap, so the larger one is your guess.",
        "16384: there are 2 * 16384**3 FLOPs. triangle: add half of their time to 32 * 32 * 16 steps of 0.33 us.",
        "decode: 8 * 4096 * 4096 weights of two bytes have to come from HBM, for next to no arithmetic.",
    ),
    points=2,
)
