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
                        "You count one operation for each pair of elements, but they are multiplied and added: two "
                        "operations."
                    ),
                    "m * n * (2 * k - 1)": (
                        "k products need k - 1 additions, so your count is exact. By convention, though, each product "
                        "counts as a multiplication and an addition, which makes 2k. The check does the same."
                    ),
                    "2 * m * k * n * itemsize": "An operation counts once, however many bytes its operands have.",
                    "2 * m * n": "Each of the m*n results is a sum. How many products does it add up?",
                    "2 * m**3": "That is right only where all three sizes are equal. In general they differ.",
                },
            ),
            Formula(
                name="the bytes",
                unit="bytes",
                formula="(m * k + k * n + m * n) * itemsize",
                proof=lambda *case: cost.payload_bytes(one_block(*case)),
                near={
                    "(m * k + k * n) * itemsize": "You count x and y, which go in, but the result has to come out too.",
                    "m * k + k * n + m * n": "You count elements. How many bytes does each of them have?",
                    "(m * k + k * n + m * n) * 4": (
                        "You take every element for a float32, but the last argument says how many bytes it has."
                    ),
                    "(m * k + k * n + m * n) * 2": (
                        "You take every element for a bfloat16, but the last argument says how many bytes it has."
                    ),
                    "(m * k + k * n + 2 * m * n) * itemsize": (
                        "You count the result twice. It is written, but not read before."
                    ),
                    "3 * m * n * itemsize": "The three matrices have different shapes: (m, k), (k, n) and (m, n).",
                    "(m * k + k * n) * itemsize + m * n * 4": (
                        "You write the result as float32, but here all three matrices have elements of one size."
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
                        "// drops the digits after the decimal point. Divide with /."
                    ),
                    "m / (1.5 * itemsize)": "That holds only if m, k and n are equal. Divide the FLOPs by the bytes.",
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
        "Take m = k = n = 1: what is multiplied, what is added, and which three elements move?",
        "The result has m*n elements. Each is a sum of k products, each of which takes two operations.",
        "The shapes are (m, k), (k, n) and (m, n). Multiply the number of elements by itemsize.",
    ),
    points=2,
)
