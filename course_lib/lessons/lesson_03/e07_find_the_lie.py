"""Five claims about matmuls, and the number that decides each."""

import functools

import jax.numpy as jnp

from course_lib import chips, cost, grid, roofline
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several
from course_lib.lessons.lesson_03.product import MI, in_blocks, square

STANDS, FALLS = "stands", "falls"
_DECIDES = "let the number that goes with it decide: what would it have to be for the claim to hold?"


def _judgement(right: str, sentence: str, why: str, proof) -> Choose:
    wrong = FALLS if right == STANDS else STANDS
    return Choose(options=(STANDS, FALLS), right=right, wrong={wrong: sentence}, why=why, proof=proof, next=_DECIDES)


def _rate_of(seconds: float) -> float:
    """Return the TFLOP/s that a matmul of 8192 would have reached."""
    work = cost.flops(grid.walk(jnp.dot, *square(8192, jnp.float32))).mxu
    return work / seconds / 1e12


def _possible(seconds: float) -> str:
    return STANDS if _rate_of(seconds) * 1e12 <= chips.chip("v5e").bf16_flops else FALLS


def _round_trip_microseconds() -> float:
    """Return the microseconds to write a float32 result of 8192 x 8192 to HBM and read it back, at full bandwidth."""
    (result, _) = square(8192, jnp.float32)
    return 2 * result.size * result.dtype.itemsize / chips.chip("v5e").hbm_bandwidth * 1e6


def _bytes_written_for_the_result() -> float:
    """Return the MiB that a matmul of 4096 in blocks of 512 writes for its result, with the reduction innermost."""
    rows = cost.traffic(grid.walk(functools.partial(in_blocks, bm=512, bk=512, bn=512), *square(4096)))
    return sum(row.bytes for row in rows if row.direction == "out") / MI


LIES = {
    "A": (
        _judgement(
            FALLS,
            "Memory-bound is what lies left of the ridge point. On which side of it is this product?",
            "far to the right of the ridge point.",
            lambda: STANDS if 8192 / 6 < roofline.ridge_point(chip="v5e", dtype="float32") else FALLS,
        ),
        Predict(
            value=1365.3,
            unit="FLOP/B",
            tolerance=0.01,
            near={
                2731: "That is right for bfloat16. The claim is about float32: how many bytes is one number?",
                240: "That is the ridge point of the chip. The question is the intensity of the product.",
                4096: "Three matrices pass between HBM and the chip, not one: x, y and the result.",
                2048: "That counts x and y. The result has to get out as well.",
                683: "That counts one operation for a multiplication and an addition. They are two.",
            },
            why="2 N^3 FLOPs over 12 N^2 bytes.",
            proof=lambda: 2 * 8192**3 / (3 * 8192**2 * 4),
            stands_above="a bfloat16 product of half the size happens to have the same intensity.",
        ),
    ),
    "B": (
        _judgement(
            FALLS,
            "How much time is there to be saved by this? Compare it with the time that is said to be saved.",
            "a round trip takes an eighth of what it is said to save.",
            lambda: STANDS if _round_trip_microseconds() / 1e6 > 7.807e-3 - 2.240e-3 else FALLS,
        ),
        Predict(
            value=654.7,
            unit="us",
            tolerance=0.01,
            near={
                327.4: "That is one way, or both in bfloat16. The result is float32, written and read again.",
                982.1: "Does the last write fall away as well? Someone has to write the end result.",
                5567: "That is what is said to be saved. The question is what the round trip takes.",
                163.7: "That is one way in bfloat16. The result is float32, and it is written and read again.",
                624.4: "8192 * 8192 is 64 Mi, and a GB is 10**9 bytes: k, M, G and Ki, Mi, Gi differ.",
            },
            why="256 MiB out and 256 MiB in.",
            proof=_round_trip_microseconds,
        ),
    ),
    "C": (
        _judgement(
            STANDS,
            "A number is not wrong for being published next to a wrong one. Does it break a roof?",
            "below the peak.",
            lambda: _possible(7.811e-3),
        ),
        Predict(
            value=140.8,
            unit="TFLOP/s",
            tolerance=0.01,
            near={
                70.4: "That counts one operation for a multiplication and an addition. They are two.",
                197: "That is the peak of the chip. The question is the rate that the claim amounts to.",
            },
            why="2 N^3 FLOPs in 7.811 ms.",
            proof=lambda: _rate_of(7.811e-3),
        ),
    ),
    "D": (
        _judgement(
            FALLS,
            "What does chips.chip('v5e').hbm_bandwidth say? Another chip of the lesson's table has 1640 GB/s.",
            "twice the bandwidth, half the ridge point.",
            lambda: STANDS if abs(chips.chip("v5e").hbm_bandwidth / 1.6e12 - 1) < 0.1 else FALLS,
        ),
        Predict(
            value=240.2,
            unit="FLOP/B",
            tolerance=0.01,
            near={
                123: "That is the claim's own number. Work it out from what chips.chip has.",
                480: "That is the ridge point of products in int8, which run at twice the rate.",
            },
            why="197 TFLOP/s over 820 GB/s.",
            proof=lambda: roofline.ridge_point(chip="v5e"),
            stands_above="it is the lesson's ridge point, and the claim contradicts the lesson.",
        ),
    ),
    "E": (
        _judgement(
            FALLS,
            "Follow the output's index map along k. When does a block leave VMEM, in lesson 1's list of copies?",
            "its index stands still, so it stays.",
            lambda: STANDS if _bytes_written_for_the_result() > 4096 * 4096 * 2 / MI else FALLS,
        ),
        Predict(
            value=32,
            unit="MiB",
            tolerance=0.005,
            near={
                256: "That is what it would be if each of the 8 steps along k wrote its block. Does the index change?",
                512: "That is what it would be if each of the 8 steps along k read and wrote its block.",
                64: "Is anything read for the result, or is the result in float32?",
                4: "That is one row of blocks. How many rows of blocks has the result?",
                0.5: "That is one block. How many blocks has the result, and how often is each written?",
            },
            why="each of 64 blocks once.",
            proof=_bytes_written_for_the_result,
        ),
    ),
}

EXERCISE = Exercise(
    id="03.7",
    title="Find the lie",
    kind="several",
    defines="verdicts",
    asks=Several(parts=LIES, why="four claims fall to one number each, and one stands."),
    hints=(
        "Each claim breaks a roof, a list of copies, or nothing. Work out the number first and judge then.",
        "A: N / 6. B: bytes over bandwidth. C: 2 * 8192**3 FLOPs over the time. D: chips.chip.",
        "E: cost.traffic(grid.walk(...)) of a product in blocks with k last; or think which index the output has.",
    ),
    points=3,
)
