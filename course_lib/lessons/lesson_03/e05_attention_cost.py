"""The FLOPs and bytes of attention."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.compute import Compute, Formula
from course_lib.lessons.lesson_03.product import array


def _attended(t: int, causal: bool) -> float:
    """Return the number of (query, visible key) pairs, counted row by row."""
    return sum(row + 1 if causal else t for row in range(t))


def _attention_bytes(t: int, width: int, heads: int, kv_heads: int, causal: bool) -> int:
    """Return the total bytes of q, k, v and the result, as arrays."""
    arrays = array(t, heads, width), array(t, kv_heads, width), array(t, kv_heads, width), array(t, heads, width)
    return sum(array.size * array.dtype.itemsize for array in arrays)


# T x T scores per head, written to HBM and maybe read back, in 2 or 4 bytes: the scores, the weights, or both.
_WITH_SCORES = {
    f"2 * t * width * (2 * heads + 2 * kv_heads) + {each} * t * t * heads{masked}": (
        "You count the scores as well, T by T for every head. A kernel need never let them leave VMEM: count the least."
    )
    for each in (2, 4, 6, 8, 12, 16)
    for masked in ("", " / (2 if causal else 1)")
}
_SOFTMAX = "That counts the softmax as well. Asked for are the two products alone"
_NO_MASK = "; and with causal=True a query sees only the keys before it."

EXERCISE = Exercise(
    id="03.5",
    title="Compute: the cost of attention",
    kind="compute",
    defines="attention_cost",
    asks=Compute(
        takes=("t", "width", "heads", "kv_heads", "causal"),
        results=(
            Formula(
                name="the FLOPs",
                unit="FLOPs",
                tolerance=0.01,
                formula="4 * t * t * width * heads / (2 if causal else 1)",
                proof=lambda t, width, heads, kv_heads, causal: 4 * _attended(t, causal) * width * heads,
                near={
                    "4 * t * t * width * heads": (
                        "A query sees the keys before it, and none behind: how many of the T*T pairs are left?"
                    ),
                    "4 * t * t * width * kv_heads / (2 if causal else 1)": (
                        "Query heads that share a K and a V share bytes. Each of them still multiplies by itself."
                    ),
                    "4 * t * t * width * kv_heads": (
                        "Two slips: every query head multiplies, even where two share K and V; and with causal=True a "
                        "query sees only the keys before it."
                    ),
                    "2 * t * t * width * heads / (2 if causal else 1)": (
                        "That is one product, or one operation for two: there are Q with K and the weights with V, and "
                        "each multiplies and adds."
                    ),
                    "2 * t * t * width * heads": (
                        "Two slips: there are two products; and with causal=True half of the pairs will do."
                    ),
                    "4 * t * t * width / (2 if causal else 1)": "That is one head. There are several.",
                    "4 * t * t * width": (
                        "That is the lesson's formula, for one head and no mask. Here are several heads, and with "
                        "causal=True a query sees only the keys before it."
                    ),
                    "(4 * width + 3) * t * t * heads / (2 if causal else 1)": _SOFTMAX + ".",
                    "(4 * width + 3) * t * t * heads": _SOFTMAX + _NO_MASK,
                    "(4 * width + 5) * t * t * heads / (2 if causal else 1)": _SOFTMAX + ".",
                    "(4 * width + 5) * t * t * heads": _SOFTMAX + _NO_MASK,
                    "4 * t * width * width * heads / (2 if causal else 1)": (
                        "The scores are T by T: every query meets every key."
                    ),
                },
            ),
            Formula(
                name="the bytes",
                unit="bytes",
                formula="2 * t * width * (2 * heads + 2 * kv_heads)",
                proof=_attention_bytes,
                near={
                    "8 * t * width * heads": "K and V have kv_heads heads, fewer than Q: that is what grouping saves.",
                    "2 * t * width * (heads + 2 * kv_heads)": (
                        "You count Q, K and V. The result has to come out as well."
                    ),
                    "t * width * (2 * heads + 2 * kv_heads)": "You count numbers. A bfloat16 has two bytes.",
                    "4 * t * width * (2 * heads + 2 * kv_heads)": (
                        "You take them for float32. They are bfloat16, two bytes each."
                    ),
                    **_WITH_SCORES,
                    "2 * t * width * (2 * heads + 2 * kv_heads) / (2 if causal else 1)": (
                        "A mask saves arithmetic. Every key is still seen by somebody, so all of K and V is read."
                    ),
                },
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
    ),
    hints=(
        "Two products a head: Q with K, and the weights with V. Leave the softmax out.",
        "Causal: query t sees keys 0 to t, so about half of the T*T pairs.",
        "Bytes: Q and the result have `heads` heads of T*K numbers, K and V have `kv_heads`; two bytes a number.",
    ),
    points=2,
)
