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
        "You count the scores as well, T by T for every head. A kernel need never let them leave VMEM: leave them out."
    )
    for each in (2, 4, 6, 8, 12, 16)
    for masked in ("", " / (2 if causal else 1)")
}
_SOFTMAX = "That counts the softmax as well, but the question is about the two matmuls alone"
_NO_MASK = "; and with causal=True, query t sees only the keys 0 to t."

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
                        "With causal=True, query t sees only the keys 0 to t. So how many of the T*T pairs are left?"
                    ),
                    "4 * t * t * width * kv_heads / (2 if causal else 1)": (
                        "Query heads that share K and V share bytes, but each of them still does its own matmuls."
                    ),
                    "4 * t * t * width * kv_heads": (
                        "Two slips: every query head does its own matmuls, even where several share K and V; and with "
                        "causal=True, query t sees only the keys 0 to t."
                    ),
                    "2 * t * t * width * heads / (2 if causal else 1)": (
                        "That counts one matmul of two, or one operation of two. Q is multiplied with K and the "
                        "weights with V, and each of these matmuls multiplies and adds."
                    ),
                    "2 * t * t * width * heads": (
                        "Two slips: there are two matmuls, and with causal=True half of the pairs will do."
                    ),
                    "4 * t * t * width / (2 if causal else 1)": "That is one head, but there are several.",
                    "4 * t * t * width": (
                        "That is the lesson's formula, for one head and no mask. Here there are several heads, and "
                        "with causal=True, query t sees only the keys 0 to t."
                    ),
                    "(4 * width + 3) * t * t * heads / (2 if causal else 1)": _SOFTMAX + ".",
                    "(4 * width + 3) * t * t * heads": _SOFTMAX + _NO_MASK,
                    "(4 * width + 5) * t * t * heads / (2 if causal else 1)": _SOFTMAX + ".",
                    "(4 * width + 5) * t * t * heads": _SOFTMAX + _NO_MASK,
                    "4 * t * width * width * heads / (2 if causal else 1)": (
                        "There are T by T scores, because every query is multiplied with every key."
                    ),
                },
            ),
            Formula(
                name="the bytes",
                unit="bytes",
                formula="2 * t * width * (2 * heads + 2 * kv_heads)",
                proof=_attention_bytes,
                near={
                    "8 * t * width * heads": "K and V have only kv_heads heads, which is what grouping saves.",
                    "2 * t * width * (heads + 2 * kv_heads)": (
                        "You count Q, K and V, but the result has to come out as well."
                    ),
                    "t * width * (2 * heads + 2 * kv_heads)": "You count elements, but a bfloat16 has two bytes.",
                    "4 * t * width * (2 * heads + 2 * kv_heads)": (
                        "You take the elements for float32, but they are bfloat16, with two bytes each."
                    ),
                    **_WITH_SCORES,
                    "2 * t * width * (2 * heads + 2 * kv_heads) / (2 if causal else 1)": (
                        "A mask saves only arithmetic. Some query still sees every key, so all of K and V is read."
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
        why="4 T T K FLOPs a head, half of them if causal; grouping saves only bytes.",
    ),
    hints=(
        "Each head has two matmuls: Q with K, and the weights with V. Leave the softmax out.",
        "With a causal mask, query t sees keys 0 to t, so about half of the T*T pairs are left.",
        "For the bytes: Q and the result have `heads` heads of T*K elements, and K and V have `kv_heads` heads. Each "
        "element has two bytes.",
    ),
    points=2,
)
