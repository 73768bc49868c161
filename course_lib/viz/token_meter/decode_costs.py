"""What one step of decoding reads, how long the bytes take, whether they fit: by bandwidth alone, and in words.

decode_costs.js computes and says the same in the browser; the tests compare both.
"""

from typing import NamedTuple

from course_lib import text


class Model(NamedTuple):
    """What counts of a model: its parameters, its layers, the KV heads in each, and the elements of a head."""

    parameters: float
    layers: int
    kv_heads: int
    head: int


class Setting(NamedTuple):
    """What the reader sets: sequences, tokens that each has, and the bytes of a weight and of a kept element."""

    sequences: int
    context: int
    weight_bytes: int
    kept_bytes: int


class Memory(NamedTuple):
    """The memory of a chip: bytes/s, and bytes."""

    bandwidth: float
    hbm_bytes: int


class Cost(NamedTuple):
    """One step, which writes one token of each sequence. Sizes in bytes, times in seconds."""

    weights: float
    kept: float  # keys and values of all sequences
    weights_s: float
    kept_s: float
    each: float  # tokens per second of one sequence
    total: float  # and of all sequences
    free: float  # bytes of memory that are left, negative if it does not fit


def cost(model: Model, setting: Setting, memory: Memory) -> Cost:
    """Return what one step reads, and how long that takes by bandwidth alone.

    A step reads every weight once, and of each sequence a key and a value for each token, layer and KV head.
    """
    weights = model.parameters * setting.weight_bytes
    a_token = 2 * model.layers * model.kv_heads * model.head * setting.kept_bytes
    kept = float(setting.sequences * setting.context * a_token)
    weights_s, kept_s = weights / memory.bandwidth, kept / memory.bandwidth
    each = 1 / (weights_s + kept_s)
    return Cost(weights, kept, weights_s, kept_s, each, setting.sequences * each, memory.hbm_bytes - weights - kept)


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds: "9.79 ms"."""
    return f"{text.significant(1000 * seconds, 3)} ms"


def rate(tokens: float) -> str:
    """Return tokens per second: "457 tokens/s"."""
    return f"{text.significant(tokens, 3)} tokens/s"


def binds(found: Cost) -> str:
    """Say which of the two takes longer, with its share of a step."""
    if found.weights_s == found.kept_s:
        return "Weights and KV cache take equally long."
    whose, longer = ("weights", found.weights_s) if found.weights_s > found.kept_s else ("KV cache", found.kept_s)
    verb = "take" if whose == "weights" else "takes"
    return f"The {whose} {verb} longer: {text.percent(longer / (found.weights_s + found.kept_s))} of a step."


def fits(found: Cost, memory: Memory) -> str:
    """Say whether weights and KV cache fit into the chip's memory."""
    whole, needs = text.size(memory.hbm_bytes), text.size(found.weights + found.kept)
    if found.free < 0:
        alone = " The weights alone are too large." if found.weights > memory.hbm_bytes else ""
        return f"It does not fit: it needs {needs}, and the chip has {whole}.{alone}"
    return f"It fits: it needs {needs} of {whole}, and {text.size(found.free)} are free."
