"""The number of concurrent users that makes decoding compute-bound."""

from course_lib import chips
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.lessons.lesson_03.rising import root


def _decode_batch(d: float = 1e9, f: float = 1e9) -> float:
    """Return the batch at which 2*B*D*F FLOPs take as long as reading D*F one-byte weights, for very large D and F."""
    of = chips.chip("v5e")
    return root(lambda b: 2 * b * d * f / of.bf16_flops - (2 * b * d + d * f + 2 * b * f) / of.hbm_bandwidth)


EXERCISE = Exercise(
    id="03.4",
    title="Predict: how many users make the MXU busy?",
    kind="predict",
    defines="batch",
    asks=Predict(
        value=120.1,
        unit="",
        tolerance=0.01,
        near={
            240.2: "That is right for weights of two bytes, or for int8 matmuls, which run at twice the rate. Here the "
            "weights have one byte, and the matmul is in bfloat16.",
            480.5: "The MXU multiplies in bfloat16 here. Does the int8 peak apply to that?",
            60.06: "Count again what one weight takes: it has one byte, and two operations for each row.",
            314.3: "Two slips: that is a layer of 2048 by 2048 in bfloat16. Here the weights have one byte, and D and "
            "F are so large that x and the result hardly count.",
            720.7: "That is the crossover of square matmuls. Here two sides are large and B is small.",
            600.6: "That comes from a square matmul. Here D and F are large, and B is small beside them.",
            360.4: "That comes from a square matmul. Here D and F are large, and B is small beside them.",
        },
        why="each weight has one byte and takes 2 FLOPs a row: 2 B FLOPs per byte.",
        proof=_decode_batch,
    ),
    hints=(
        "One of the three arrays is far larger than the others. How many bytes does it have?",
        "There are 2 B D F FLOPs and D F bytes, because the activations hardly count.",
        "Set 2 B equal to roofline.ridge_point(chip='v5e'), which is the one for bfloat16.",
    ),
    points=1,
)
