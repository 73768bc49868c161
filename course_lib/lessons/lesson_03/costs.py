"""Exercises 03.2 and 03.5: FLOPs, bytes and intensity of a product and of attention."""

from course_lib import cost
from course_lib.checks.kinds.compute import Compute, Formula
from course_lib.lessons.lesson_03.product import array, one_block


def _attended(t: int, causal: bool) -> float:
    """Pairs of a query and a key it sees, counted one row at a time."""
    return sum(row + 1 if causal else t for row in range(t))


def _attention_bytes(t: int, width: int, heads: int, kv_heads: int, causal: bool) -> int:
    """The sizes of q, k, v and the result, as arrays."""
    arrays = array(t, heads, width), array(t, kv_heads, width), array(t, kv_heads, width), array(t, heads, width)
    return sum(array.size * array.dtype.itemsize for array in arrays)


MATMUL_COST = Compute(
    results=(
        Formula(
            name="the FLOPs",
            unit="FLOPs",
            formula=lambda m, k, n, itemsize: 2 * m * k * n,
            proof=lambda *case: cost.flops(one_block(*case)).mxu,
            near=(
                (
                    lambda m, k, n, itemsize: m * k * n,
                    "You count one operation for each pair of numbers. They are multiplied and added: two.",
                ),
                (
                    lambda m, k, n, itemsize: m * n * (2 * k - 1),
                    "k products need k - 1 additions: exactly counted, and yet everybody says 2k, a "
                    "multiplication and an addition for each. So does the check.",
                ),
                (
                    lambda m, k, n, itemsize: 2 * m * k * n * itemsize,
                    "An operation is an operation, however many bytes its numbers have.",
                ),
                (
                    lambda m, k, n, itemsize: 2 * m * n,
                    "For each of the m*n results there is a sum. Of how many products?",
                ),
                (
                    lambda m, k, n, itemsize: 2 * m**3,
                    "That is right where all three sizes are equal. In general they are three numbers.",
                ),
            ),
        ),
        Formula(
            name="the bytes",
            unit="bytes",
            formula=lambda m, k, n, itemsize: (m * k + k * n + m * n) * itemsize,
            proof=lambda *case: cost.hbm_bytes(one_block(*case)),
            near=(
                (
                    lambda m, k, n, itemsize: (m * k + k * n) * itemsize,
                    "You count x and y, which go in. The result has to come out as well.",
                ),
                (
                    lambda m, k, n, itemsize: m * k + k * n + m * n,
                    "You count numbers. How many bytes is one?",
                ),
                (
                    lambda m, k, n, itemsize: (m * k + k * n + m * n) * 4,
                    "You take every number for a float32. How many bytes it has is the last argument.",
                ),
                (
                    lambda m, k, n, itemsize: (m * k + k * n + m * n) * 2,
                    "You take every number for a bfloat16. How many bytes it has is the last argument.",
                ),
                (
                    lambda m, k, n, itemsize: (m * k + k * n + 2 * m * n) * itemsize,
                    "You count the result twice. It is written, and nobody reads it first.",
                ),
                (
                    lambda m, k, n, itemsize: 3 * m * n * itemsize,
                    "The three matrices have three shapes: (m, k), (k, n) and (m, n).",
                ),
                (
                    lambda m, k, n, itemsize: (m * k + k * n) * itemsize + m * n * 4,
                    "You write the result as float32. Here all three matrices have numbers of one size.",
                ),
            ),
        ),
        Formula(
            name="the intensity",
            unit="FLOP/B",
            formula=lambda m, k, n, itemsize: 2 * m * k * n / ((m * k + k * n + m * n) * itemsize),
            proof=lambda *case: cost.flops(one_block(*case)).mxu / cost.hbm_bytes(one_block(*case)),
            near=(
                (
                    lambda m, k, n, itemsize: (m * k + k * n + m * n) * itemsize / (2 * m * k * n),
                    "It is upside down: an intensity is FLOPs per byte.",
                ),
                (
                    lambda m, k, n, itemsize: 2 * m * k * n // ((m * k + k * n + m * n) * itemsize),
                    "// throws away what is behind the point. Divide with /.",
                ),
                (
                    lambda m, k, n, itemsize: m / (1.5 * itemsize),
                    "That holds where m, k and n are equal. Divide the FLOPs by the bytes.",
                ),
            ),
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
    why="2mkn over (mk + kn + mn) * itemsize, each array moved once.",
)

ATTENTION_COST = Compute(
    results=(
        Formula(
            name="the FLOPs",
            unit="FLOPs",
            tolerance=0.01,
            formula=lambda t, width, heads, kv_heads, causal: 4 * t * t * width * heads / (2 if causal else 1),
            proof=lambda t, width, heads, kv_heads, causal: 4 * _attended(t, causal) * width * heads,
            near=(
                (
                    lambda t, width, heads, kv_heads, causal: 4 * t * t * width * heads,
                    "A query sees the keys before it, and none behind: how many of the T*T pairs are left?",
                ),
                (
                    lambda t, width, heads, kv_heads, causal: 4 * t * t * width * kv_heads / (2 if causal else 1),
                    "Query heads that share a K and a V share bytes. Each of them still multiplies by itself.",
                ),
                (
                    lambda t, width, heads, kv_heads, causal: 4 * t * t * width * kv_heads,
                    "Two slips: every query head multiplies, even where two share K and V; and with "
                    "causal=True a query sees only the keys before it.",
                ),
                (
                    lambda t, width, heads, kv_heads, causal: 2 * t * t * width * heads / (2 if causal else 1),
                    "That is one product, or one operation for two: there are Q with K and the weights with V, "
                    "and each multiplies and adds.",
                ),
                (
                    lambda t, width, heads, kv_heads, causal: 2 * t * t * width * heads,
                    "Two slips: there are two products; and with causal=True half of the pairs will do.",
                ),
                (
                    lambda t, width, heads, kv_heads, causal: 4 * t * t * width / (2 if causal else 1),
                    "That is one head. There are several.",
                ),
                (
                    lambda t, width, heads, kv_heads, causal: 4 * t * t * width,
                    "That is the lesson's formula, for one head and no mask. Here are several heads, and with "
                    "causal=True a query sees only the keys before it.",
                ),
                *(
                    (
                        lambda t, width, heads, kv_heads, causal, each=each, masked=masked: (
                            (4 * width + each) * t * t * heads / (2 if causal and masked else 1)
                        ),
                        "That counts the softmax as well. Asked for are the two products alone"
                        + ("." if masked else "; and with causal=True a query sees only the keys before it."),
                    )
                    for each in (3, 5)
                    for masked in (True, False)
                ),
                (
                    lambda t, width, heads, kv_heads, causal: 4 * t * width * width * heads / (2 if causal else 1),
                    "The scores are T by T: every query meets every key.",
                ),
            ),
        ),
        Formula(
            name="the bytes",
            unit="bytes",
            formula=lambda t, width, heads, kv_heads, causal: 2 * t * width * (2 * heads + 2 * kv_heads),
            proof=_attention_bytes,
            near=(
                (
                    lambda t, width, heads, kv_heads, causal: 8 * t * width * heads,
                    "K and V have kv_heads heads, fewer than Q: that is what grouping saves.",
                ),
                (
                    lambda t, width, heads, kv_heads, causal: 2 * t * width * (heads + 2 * kv_heads),
                    "You count Q, K and V. The result has to come out as well.",
                ),
                (
                    lambda t, width, heads, kv_heads, causal: t * width * (2 * heads + 2 * kv_heads),
                    "You count numbers. A bfloat16 has two bytes.",
                ),
                (
                    lambda t, width, heads, kv_heads, causal: 4 * t * width * (2 * heads + 2 * kv_heads),
                    "You take them for float32. They are bfloat16, two bytes each.",
                ),
                (
                    lambda t, width, heads, kv_heads, causal: (
                        2 * t * width * (2 * heads + 2 * kv_heads) + 4 * t * t * heads
                    ),
                    "You count the scores as well. A kernel need never let them leave VMEM: count the least.",
                ),
                (
                    lambda t, width, heads, kv_heads, causal: (
                        2 * t * width * (2 * heads + 2 * kv_heads) / (2 if causal else 1)
                    ),
                    "A mask saves arithmetic. Every key is still seen by somebody, so all of K and V is read.",
                ),
            ),
        ),
    ),
    cases=(
        (2048, 128, 8, 8, False),
        (2048, 128, 8, 8, True),
        (4096, 128, 32, 8, False),
        (4096, 64, 32, 4, True),
        (1024, 256, 16, 1, True),
    ),
    why="4 T T K a head, half of it if causal; grouping saves bytes only.",
)
