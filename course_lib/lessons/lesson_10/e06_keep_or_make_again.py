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
            128: "You counted 4 bytes for each element.",
            16: "That is the size of x. What is the shape of z?",
            72: "That includes w, which is kept anyway. The question is about z alone.",
        },
        why="8192 x 4096 elements of 2 bytes.",
        proof=lambda: _z_bytes() / 2**20,
    ),
    "B": Predict(
        value=163.7,
        unit="us",
        tolerance=0.02,
        near={
            81.8: "That is the time of one copy, but z is written, and read later.",
            327.4: "You counted 4 bytes for each element, or each copy twice.",
        },
        why="64 MiB are written and 64 MiB are read, at 820 GB/s.",
        proof=lambda: _saving("v5e") * 1e6,
    ),
    "C": Predict(
        value=348.8,
        unit="us",
        tolerance=0.02,
        near={174.4: "A multiplication and an addition are two FLOPs.", 697.6: "You counted each FLOP twice."},
        why="2 x 8192 x 1024 x 4096 FLOPs, at 197 TFLOP/s.",
        proof=lambda: _making("v5e") * 1e6,
    ),
    "D": Choose(
        options=("save", "recompute"),
        right="save",
        wrong={"recompute": "Compare B with C: the smaller one is faster."},
        why="the copies of z take less time than the matmul.",
        proof=lambda: _faster("v5e"),
    ),
    "E": Choose(
        options=("save", "recompute"),
        right="recompute",
        wrong={"save": "A v6e computes 4.7 times as fast and moves bytes twice as fast. Compute B and C again for it."},
        why="its ridge point is higher, so it computes more FLOPs in the time that a byte takes.",
        proof=lambda: _faster("v6e"),
    ),
}

EXERCISE = Exercise(
    id="10.6",
    title="Predict: save z, or recompute it?",
    kind="several",
    defines="kept",
    asks=Several(parts=PARTS, why="M and N cancel, so K and the chip decide."),
    hints=(
        "z has the shape of y. Saving z means one write and one read.",
        "A matmul takes 2 M K N FLOPs. Divide them by the peak, in FLOP/s.",
        "For D and E, compare two times the bytes of z over the bandwidth with the FLOPs over the peak, for each "
        "chip with its own data sheet.",
    ),
    points=2,
)
