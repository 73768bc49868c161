"""The FLOPs, bytes and arithmetic intensity of a matmul."""

from course_lib import cost
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.compute import Compute, Formula
from course_lib.lessons.lesson_03.product import one_block

EXERCISE = Exercise(
    id="03.2",
    title="Compute: the cost of a matmul",
    kind="compute",
    defines="matmul_cost",
    asks=Compute(
        takes=("m", "k", "n", "itemsize"),
        results=(
            Formula(
                name="the FLOPs",
                unit="FLOPs",
                formula="2 * m * k * n",
                proof=lambda *case: cost.flops(one_block(*case)).mxu,
                near={
                    "m * k * n": (
                        "You count one operation for each pair of numbers. They are multiplied and added: two."
                    ),
                    "m * n * (2 * k - 1)": (
                        "k products need k - 1 additions: exactly counted, and yet everybody says 2k, a multiplication "
                        "and an addition for each. So does the check."
                    ),
                    "2 * m * k * n * itemsize": "An operation is an operation, however many bytes its numbers have.",
                    "2 * m * n": "For each of the m*n results there is a sum. Of how many products?",
                    "2 * m**3": "That is right where all three sizes are equal. In general they are three numbers.",
                },
            ),
            Formula(
                name="the bytes",
                unit="bytes",
                formula="(m * k + k * n + m * n) * itemsize",
                proof=lambda *case: cost.payload_bytes(one_block(*case)),
                near={
                    "(m * k + k * n) * itemsize": "You count x and y, which go in. The result has to come out as well.",
                    "m * k + k * n + m * n": "You count numbers. How many bytes is one?",
                    "(m * k + k * n + m * n) * 4": (
                        "You take every number for a float32. How many bytes it has is the last argument."
                    ),
                    "(m * k + k * n + m * n) * 2": (
                        "You take every number for a bfloat16. How many bytes it has is the last argument."
                    ),
                    "(m * k + k * n + 2 * m * n) * itemsize": (
                        "You count the result twice. It is written, and nobody reads it first."
                    ),
                    "3 * m * n * itemsize": "The three matrices have three shapes: (m, k), (k, n) and (m, n).",
                    "(m * k + k * n) * itemsize + m * n * 4": (
                        "You write the result as float32. Here all three matrices have numbers of one size."
                    ),
                },
            ),
            Formula(
                name="the intensity",
                unit="FLOP/B",
                formula="2 * m * k * n / ((m * k + k * n + m * n) * itemsize)",
                proof=lambda *case: cost.flops(one_block(*case)).mxu / cost.payload_bytes(one_block(*case)),
                near={
                    "(m * k + k * n + m * n) * itemsize / (2 * m * k * n)": (
                        "It is upside down: an intensity is FLOPs per byte."
                    ),
                    "2 * m * k * n // ((m * k + k * n + m * n) * itemsize)": (
                        "// throws away what is behind the point. Divide with /."
                    ),
                    "m / (1.5 * itemsize)": "That holds where m, k and n are equal. Divide the FLOPs by the bytes.",
                },
            ),
        ),
        cases=(
            (8, 128, 256, 2),
            (4096, 4096, 4096, 2),
            (1, 8192, 28672, 2),
            (300, 70, 11, 4),
            (1024, 512, 2048, 4),
            (256, 4096, 1024, 1),
        ),
        why="2mkn over (mk + kn + mn) * itemsize, each array moved once, without padding.",
    ),
    hints=(
        "Take m = k = n = 1: what is multiplied, what is added, and which three numbers move?",
        "The result has m*n numbers, each a sum of k products: a multiplication and an addition for each.",
        "The shapes are (m, k), (k, n) and (m, n). Numbers times itemsize are bytes.",
    ),
    points=2,
)
