"""The size from which a matmul is compute-bound."""

from course_lib import chips
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.lessons.lesson_03.rising import root


def _crossover(chip: str, in_bytes: int, out_bytes: int) -> float:
    """Return the N above which the arithmetic of [N, N] x [N, N] takes longer than its copies."""
    of, numbers = chips.chip(chip), 2 * in_bytes + out_bytes
    return root(lambda n: 2 * n**3 / of.bf16_flops - numbers * n**2 / of.hbm_bandwidth)


EXERCISE = Exercise(
    id="03.3",
    title="Predict: a crossover",
    kind="predict",
    defines="crossover",
    asks=Predict(
        value=2243.9,
        unit="",
        tolerance=0.01,
        near={
            1682.9: "That would be right if the result were bfloat16, too.",
            3365.9: "That would be right if x and y were float32 as well.",
            961.0: "That is the crossover on a v5e, but the question is about a v6e.",
            721: "Two slips: that is the lesson's matmul on the lesson's chip. Here the result is float32, and the "
            "chip is a v6e.",
            561.0: "That is the ridge point, in FLOPs per byte. At which N does the matmul have that intensity?",
            1122.0: "That counts x and y, which go in, but the result has to come out as well.",
            4487.8: "That counts a multiplication and an addition as one operation, but they are two.",
        },
        why="the matmul does N / 4 FLOPs per byte, and 561 are needed.",
        proof=lambda: _crossover("v6e", 2, 4),
    ),
    hints=(
        "Write down the FLOPs and the bytes, as in the lesson. Only the bytes are different here.",
        "x and y have 2 bytes per element and the result has 4, which makes 8 N^2 bytes in all.",
        "The intensity is 2 N^3 / (8 N^2) = N / 4. Set it equal to roofline.ridge_point(chip='v6e').",
    ),
    points=1,
)
