"""The ideals of four operations, and what binds them."""

import jax
import jax.numpy as jnp

from course_lib import vocabulary
from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.project import Ideal, moved_once
from course_lib.checks.kinds.several import Several


def _f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _bf16(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16)


GATED = Ideal(hbm_bytes=moved_once([_bf16(8192, 4096)] * 3))
LARGEST = Ideal(hbm_bytes=moved_once(_f32(128, 65536), _f32(128), _f32(128)))
BLUR = Ideal(vector_ops=48 * 2048 * 2048, hbm_bytes=moved_once([_bf16(2048, 2048)] * 2))
GRAM = Ideal(flops=2 * 512 * 512 * 65536, hbm_bytes=moved_once(_bf16(65536, 512), _f32(512, 512)))


def us(ideal: Ideal) -> float:
    """Return the microseconds of an ideal on a v5e."""
    return ideal.seconds() * 1e6


EXERCISE = Exercise(
    id="18.1",
    title="Four ideals",
    kind="several",
    defines="ideals",
    asks=Several(
        parts={
            "gated": Predict(
                value=245.82,
                unit="us",
                tolerance=0.02,
                near={
                    163.88: "That is the time of a and b. Where does h go?",
                    491.64: "That is four bytes for each element. Which dtype are these arrays?",
                },
                why="three arrays of 64 MiB move once.",
                proof=lambda: us(GATED),
            ),
            "largest": Predict(
                value=40.97,
                unit="us",
                tolerance=0.02,
                near={
                    81.94: "That is as if an array as large as x were written. How large are the results?",
                    20.48: "That is two bytes for each element. Which dtype has x?",
                },
                why="x is read once, and the results are small.",
                proof=lambda: us(LARGEST),
            ),
            "blur": Predict(
                value=32.768,
                unit="us",
                tolerance=0.03,
                near={
                    20.485: "That is the time of the bytes. How long does the VPU need, with all its slots filled?",
                    131.07: "That is one operation per cycle for each element of a register. How many slots of a "
                    "bundle are the VPU's?",
                },
                why="48 operations an element take longer than its 4 bytes.",
                proof=lambda: us(BLUR),
            ),
            "gram": Predict(
                value=174.41,
                unit="us",
                tolerance=0.02,
                near={
                    87.21: "That counts a multiplication and its addition as one. How many FLOPs is that?",
                    83.22: "That is the time of the bytes. How long do the MXUs need?",
                },
                why="the MXUs take twice as long as the bytes.",
                proof=lambda: us(GRAM),
            ),
            "blur_binds": Choose(
                options=(vocabulary.CORE, vocabulary.HBM),
                right=vocabulary.CORE,
                wrong={vocabulary.HBM: "Which of its two times is longer?"},
                why="the VPU needs longer than the bytes.",
                proof=lambda: BLUR.bound(),
            ),
        },
        why="an ideal is the longest of three times.",
    ),
    hints=(
        "The bytes of every array, once, at a v5e's 819 GB/s; 2 m k n FLOPs of a matmul at 197 TFLOP/s; operations of "
        "the VPU at its rate. Which is the longest?",
        'chips.chip("v5e") of course_lib has the peaks, the clock and the slots. Each slot of the VPU works on a '
        "register of 8 x 128 elements in a cycle.",
        "gated is 3 * 8192 * 4096 * 2 bytes. blur is 48 * 2048 * 2048 operations; divide by slots * 1024 * clock.",
    ),
    points=2,
)
