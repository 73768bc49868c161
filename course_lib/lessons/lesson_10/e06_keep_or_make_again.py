"""Figures to predict: what it costs to save z, and what it costs to recompute it."""

import jax
import jax.numpy as jnp

from course_lib import chips
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several

M, K, N = 8192, 1024, 4096


def _z_bytes() -> int:
    return jax.ShapeDtypeStruct((M, N), jnp.bfloat16).size * 2


def _saving(chip: str) -> float:
    return 2 * _z_bytes() / chips.chip(chip).hbm_bandwidth


def _making(chip: str) -> float:
    return 2 * M * K * N / chips.chip(chip).bf16_flops


def _faster(chip: str) -> str:
    return "save" if _saving(chip) < _making(chip) else "recompute"


PARTS = {
    "A": Predict(
        value=64,
        unit="MiB",
        near={
            128: "That is with 4 bytes a number.",
            16: "That is x. Which shape has z?",
            72: "w is kept anyway. What is asked for is z alone.",
        },
        why="8192 x 4096 numbers of 2 bytes.",
        proof=lambda: _z_bytes() / 2**20,
    ),
    "B": Predict(
        value=163.7,
        unit="us",
        tolerance=0.02,
        near={
            81.8: "That is one way. It is written, and read later.",
            327.4: "That is with 4 bytes a number, or each way twice.",
        },
        why="64 MiB each way, over 820 GB/s.",
        proof=lambda: _saving("v5e") * 1e6,
    ),
    "C": Predict(
        value=348.8,
        unit="us",
        tolerance=0.02,
        near={174.4: "A multiplication and an addition are two FLOPs.", 697.6: "That counts each FLOP twice."},
        why="2 x 8192 x 1024 x 4096 FLOPs, over 197 TFLOP/s.",
        proof=lambda: _making("v5e") * 1e6,
    ),
    "D": Choose(
        options=("save", "recompute"),
        right="save",
        wrong={"recompute": "Compare B with C: the smaller one is faster."},
        why="the bytes take less time than the product.",
        proof=lambda: _faster("v5e"),
    ),
    "E": Choose(
        options=("save", "recompute"),
        right="recompute",
        wrong={"save": "A v6e computes 4.7 times as fast, and moves bytes twice as fast. Compute B and C anew."},
        why="its ridge point is higher, so bytes cost it more products.",
        proof=lambda: _faster("v6e"),
    ),
}

EXERCISE = Exercise(
    id="10.6",
    title="Predict: save z, or recompute it?",
    kind="several",
    defines="kept",
    asks=Several(parts=PARTS, why="M and N drop out; K decides, and the chip."),
    hints=(
        "z has the shape of y. Saving writes it once and reads it once.",
        "A product takes 2 M K N FLOPs. Divide by the peak, in FLOP/s.",
        "D and E: bytes of z times 2 over the bandwidth, against FLOPs over the peak, each chip with its own numbers.",
    ),
    points=2,
)
