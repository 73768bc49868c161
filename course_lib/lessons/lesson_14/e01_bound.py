"""The bytes that a model keeps of a token, and the tokens per second that bandwidth allows."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.compute import Compute, Formula

# Parameters, layers, KV heads, elements of a head: the config.json of each model on huggingface.co.
LLAMA_3, LLAMA_2, GEMMA_2 = (8.03e9, 32, 8, 128), (6.74e9, 32, 32, 128), (9.24e9, 42, 8, 256)
V5E, V6E = 8.2e11, 1.64e12

_TAKES = ("parameters", "layers", "kv_heads", "head", "sequences", "context", "bandwidth")


def _kept(parameters, layers, kv_heads, head, sequences, context, bandwidth) -> float:
    """Return the bytes of a token, counted array by array."""
    return sum(2 * head for _ in range(int(layers)) for _ in range(int(kv_heads)) for _ in ("key", "value"))


def _tokens(parameters, layers, kv_heads, head, sequences, context, bandwidth) -> float:
    """Return the tokens per second, from the seconds of weights and of each sequence."""
    seconds = parameters / bandwidth
    for _ in range(int(sequences)):
        seconds += context * _kept(parameters, layers, kv_heads, head, sequences, context, bandwidth) / bandwidth
    return sequences / seconds


EXERCISE = Exercise(
    id="14.1",
    title="Compute: the bound of three models",
    kind="compute",
    defines="bound",
    asks=Compute(
        takes=_TAKES,
        results=(
            Formula(
                name="the bytes of a token",
                unit="bytes",
                tolerance=0,
                formula="4 * layers * kv_heads * head",
                proof=_kept,
                near={
                    "2 * layers * kv_heads * head": "Count keys and values, with two bytes for each element.",
                    "4 * kv_heads * head": "That is one layer, but every layer keeps its own keys and values.",
                    "4 * layers * head": "That is only one KV head, and a layer has several.",
                    "8 * layers * kv_heads * head": "You count four bytes for each element, and bfloat16 has two.",
                },
            ),
            Formula(
                name="the tokens per second",
                unit="",
                tolerance=1e-5,
                formula="sequences * bandwidth / (parameters + sequences * context * 4 * layers * kv_heads * head)",
                proof=_tokens,
                near={
                    "bandwidth / (parameters + sequences * context * 4 * layers * kv_heads * head)": (
                        "Those are the tokens of one sequence, but in the same time every sequence gets a token."
                    ),
                    "sequences * bandwidth / (parameters + context * 4 * layers * kv_heads * head)": (
                        "Every sequence has a text of its own, so a step reads a cache for each of them."
                    ),
                    "bandwidth / (parameters + context * 4 * layers * kv_heads * head)": (
                        "The weights are read once in a step, and serve all sequences."
                    ),
                    "sequences * bandwidth / (2 * parameters + sequences * context * 4 * layers * kv_heads * head)": (
                        "You count two bytes for each weight, but here a weight has one."
                    ),
                    "sequences * bandwidth / max(parameters, sequences * context * 4 * layers * kv_heads * head)": (
                        "The weights and the cache come through the same memory, so their times add up."
                    ),
                    "(parameters + sequences * context * 4 * layers * kv_heads * head) / bandwidth": (
                        "That is the time of a step in seconds. How many tokens does it write?"
                    ),
                },
            ),
        ),
        cases=tuple(
            (*model, sequences, context, bandwidth)
            for model in (LLAMA_3, LLAMA_2, GEMMA_2)
            for sequences, context, bandwidth in ((1, 2048, V5E), (8, 8192, V5E), (16, 4096, V6E))
        ),
        why="Llama 2 keeps four times as much as Llama 3.1, whose queries share KV heads.",
    ),
    hints=(
        "The cache has two arrays in each layer. How many elements of one of them belong to a token?",
        "The time of a step is its bytes divided by the bandwidth. Which bytes are read once, and which for each "
        "sequence?",
        "A token keeps 2 * layers * kv_heads * head elements, of two bytes each. A step reads parameters + sequences * "
        "context * kept bytes, and writes a token for each sequence.",
    ),
    points=2,
)
