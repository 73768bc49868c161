"""The time to read all of the HBM once, and what it means for a model."""

from course_lib import chips
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

PARAMETERS = 7e9
AMOUNT_OVER_RATE = "write the bytes that are read over the bytes of a second, each with its unit."


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
            19.5: "That is 16 GB. A v5e has 16 GiB, which are 17.2 GB.",
            41.95: "Each byte is read once. Is it written, too?",
            0.1637: "That is how long it takes to fill VMEM. What does HBM hold?",
        },
        next=AMOUNT_OVER_RATE,
        why="what it holds, over its bandwidth.",
        proof=lambda: _stream_ms("v5e"),
    ),
    "v5p": Predict(
        value=41.87,
        unit="ms",
        tolerance=0.01,
        near={
            83.74: "That is all of the chip through the bandwidth of one of its two cores. Both cores read.",
            38.62: "That is 95 GB. What has chips.chip for hbm_bytes, and how many cores has the chip?",
            34.36: "That is with the figures of Google's page. This course takes JAX's, chips.chip.",
            20.93: "That is one core's half through the bandwidth of the whole chip.",
        },
        next=AMOUNT_OVER_RATE,
        why="twice as long as a v5e, with six times the memory.",
        proof=lambda: _stream_ms("v5p"),
    ),
    "tokens": Predict(
        value=58.57,
        unit="",
        tolerance=0.01,
        near={
            117.1: "That is right for weights of one byte. bfloat16 has two.",
            29.29: "That is right for float32. These weights are bfloat16.",
            0.01707: "That is the seconds for one token. How many of them are in a second?",
            17.07: "That is the milliseconds for one token. How many of them are in a second?",
            47.67: "That reads all of the HBM for a token. How many bytes do the weights have?",
            14071.4: "That is the arithmetic, at the peak. Which of the two takes longer?",
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
    asks=Several(parts=STREAMS, why="nothing that reads its memory once is faster."),
    hints=(
        "Amount over rate is time. Both stand in chips.chip(name).",
        "c.hbm_bytes / c.hbm_bandwidth, in seconds: both belong to one core. 1000 ms are a second.",
        "tokens: 7e9 weights of two bytes come, at 820 GB/s, once for each token. How often is that in a second?",
    ),
    points=1,
)
