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
            "An operation is memory-bound if it lies left of the ridge point. On which side of it is this matmul?",
            "far to the right of the ridge point.",
            lambda: STANDS if 8192 / 6 < roofline.ridge_point(chip="v5e", dtype="float32") else FALLS,
        ),
        Predict(
            value=1365.3,
            unit="FLOP/B",
            tolerance=0.01,
            near={
                2731: "That is right for bfloat16. The claim is about float32, so how many bytes does an element have?",
                240: "That is the ridge point of the chip, but the question is about the intensity of the matmul.",
                4096: "Three matrices pass between HBM and the chip, not one: x, y and the result.",
                2048: "That counts x and y, but the result has to come out as well.",
                683: "That counts a multiplication and an addition as one operation, but they are two.",
            },
            why="2 N^3 FLOPs over 12 N^2 bytes.",
            proof=lambda: 2 * 8192**3 / (3 * 8192**2 * 4),
            stands_above="a bfloat16 matmul of half the size happens to have the same intensity.",
        ),
    ),
    "B": (
        _judgement(
            FALLS,
            "How much time does the saved round trip take? Compare it with the time that is said to be saved.",
            "a round trip takes an eighth of what it is said to save.",
            lambda: STANDS if _round_trip_microseconds() / 1e6 > 7.807e-3 - 2.240e-3 else FALLS,
        ),
        Predict(
            value=654.7,
            unit="us",
            tolerance=0.01,
            near={
                327.4: "That is one way, or both in bfloat16. The result is float32, and it is written and read again.",
                982.1: "That saves the last write as well, but the final result still has to be written.",
                5567: "That is what is said to be saved, but the question is how long the round trip takes.",
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
            "A number does not become wrong because a wrong one was published next to it. Does it break a roof?",
            "below the peak.",
            lambda: _possible(7.811e-3),
        ),
        Predict(
            value=140.8,
            unit="TFLOP/s",
            tolerance=0.01,
            near={
                70.4: "That counts a multiplication and an addition as one operation, but they are two.",
                197: "That is the peak of the chip, but the question is about the rate that the claim amounts to.",
            },
            why="2 N^3 FLOPs in 7.811 ms.",
            proof=lambda: _rate_of(7.811e-3),
        ),
    ),
    "D": (
        _judgement(
            FALLS,
            "What does chips.chip('v5e').hbm_bandwidth say? Another chip in the lesson's table has 1640 GB/s.",
            "twice the bandwidth, half the ridge point.",
            lambda: STANDS if abs(chips.chip("v5e").hbm_bandwidth / 1.6e12 - 1) < 0.1 else FALLS,
        ),
        Predict(
            value=240.2,
            unit="FLOP/B",
            tolerance=0.01,
            near={
                123: "That is the claim's own number. Work it out again, from what chips.chip says.",
                480: "That is the ridge point of int8 matmuls, which run at twice the rate.",
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
                256: "That would be right if each of the 8 steps along k wrote its block. Does its index change?",
                512: "That would be right if each of the 8 steps along k read and wrote its block.",
                64: "Is anything read for the result, or is the result in float32?",
                4: "That is one row of blocks. How many rows of blocks does the result have?",
                0.5: "That is one block. How many blocks does the result have, and how often is each one written?",
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
        "Each claim contradicts a roof, a list of copies, or nothing. Work out the number first, then judge.",
        "A: the intensity is N / 6. B: divide bytes by bandwidth. C: divide 2 * 8192**3 FLOPs by the time. D: ask "
        "chips.chip.",
        "E: call cost.traffic(grid.walk(...)) for a matmul in blocks with k last, or think about which index the "
        "output block has.",
    ),
    points=3,
)
