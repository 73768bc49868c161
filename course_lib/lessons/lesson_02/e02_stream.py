"""The time to read all of the HBM once, and what it means for a model."""

from course_lib import chips
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

PARAMETERS = 7e9
AMOUNT_OVER_RATE = "divide the bytes that are read by the bytes per second, and write both with their units."


def _stream_ms(name: str) -> float:
    chip = chips.chip(name)
    return chip.hbm_bytes / chip.hbm_bandwidth * 1e3


def _tokens_per_second() -> float:
    return chips.chip("v5e").hbm_bandwidth / (2 * PARAMETERS)


STREAMS = {
    "v5e": Predict(
        value=20.98,
        unit="ms",
        tolerance=0.01,
        near={
            19.5: "That is the time of 16 GB. A v5e has 16 GiB, which are 17.2 GB.",
            41.95: "That moves each byte twice. It is read once, but is it written, too?",
            0.1637: "That is how long it takes to fill VMEM. How many bytes does HBM hold?",
        },
        next=AMOUNT_OVER_RATE,
        why="it is the size of the HBM divided by its bandwidth.",
        proof=lambda: _stream_ms("v5e"),
    ),
    "v5p": Predict(
        value=41.87,
        unit="ms",
        tolerance=0.01,
        near={
            83.74: "That reads the HBM of the whole chip at the bandwidth of one of its two cores. Both cores read.",
            38.62: "That is the time of 95 GB. What is hbm_bytes in chips.chip, and how many cores does the chip have?",
            34.36: "That uses the figures of Google's page. This course takes JAX's, which chips.chip has.",
            20.93: "That reads one core's half of the HBM at the bandwidth of the whole chip.",
        },
        next=AMOUNT_OVER_RATE,
        why="it takes twice as long as on a v5e, with six times the memory.",
        proof=lambda: _stream_ms("v5p"),
    ),
    "tokens": Predict(
        value=58.57,
        unit="",
        tolerance=0.01,
        near={
            117.1: "That is right for weights of one byte, but bfloat16 has two.",
            29.29: "That is right for float32, but these weights are bfloat16.",
            0.01707: "That is the time of one token in seconds. How many tokens fit into a second?",
            17.07: "That is the time of one token in milliseconds. How many tokens fit into a second?",
            47.67: "That reads all of the HBM for each token. How many bytes do the weights have?",
            14071.4: "That is what the arithmetic allows at the peak. Does it take longer than reading the weights?",
        },
        next=AMOUNT_OVER_RATE,
        why="every weight is read for every token.",
        proof=_tokens_per_second,
    ),
}

EXERCISE = Exercise(
    id="02.2",
    title="Predict: once through the memory",
    kind="several",
    defines="once",
    asks=Several(parts=STREAMS, why="no program that reads all of its memory once can be faster."),
    hints=(
        "An amount divided by a rate is a time. Both are fields of chips.chip(name).",
        "c.hbm_bytes / c.hbm_bandwidth is the time in seconds; both belong to one core. A second has 1000 ms.",
        "tokens: each token reads 7e9 weights of two bytes at 820 GB/s. How often is that possible in a second?",
    ),
    points=1,
)
