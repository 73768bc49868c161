"""Limits of sums in bfloat16 and int32; what six passes cost and what three leave out."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.choose import Choose
from course_lib.checks.kinds.predict import Predict
from course_lib.checks.kinds.several import Several


def _stops_growing() -> int:
    one = np.asarray(1, jnp.bfloat16)
    total = np.asarray(0, jnp.bfloat16)
    while (total + one).astype(jnp.bfloat16) > total:
        total = (total + one).astype(jnp.bfloat16)
    return int(total)


def _leaves_int32() -> int:
    return next(k for k in itertools.count(1) if k * (-128) ** 2 > np.iinfo(np.int32).max)


def _six_passes() -> float:
    return 6 * 1024**3 / 65_536


def _left_out() -> str:
    """Return the partial product whose loss matters least."""
    x, y = (jax.random.uniform(jax.random.key(n), (64,), minval=1.0, maxval=2.0) for n in (0, 1))
    x1, y1 = (np.asarray(a.astype(jnp.bfloat16), np.float64) for a in (x, y))
    x2, y2 = np.asarray(x, np.float64) - x1, np.asarray(y, np.float64) - y1
    sizes = {"x1 y1": x1 * y1, "x1 y2": x1 * y2, "x2 y1": x2 * y1, "x2 y2": x2 * y2}
    return min(sizes, key=lambda name: np.abs(sizes[name]).max())


PARTS = {
    "A": Predict(
        value=256,
        unit="",
        tolerance=0,
        near={
            255: "bfloat16 can hold 255, and 255 + 1 as well.",
            128: "From 128 on, neighboring values are 1 apart, so bfloat16 can hold 129.",
            512: "From 512 on, neighboring values are 4 apart. What happens if 1 is added where they are 2 apart?",
            65504: "That is where float16 ends. bfloat16 has a wider range, but keeps fewer bits of a value.",
            257: "257 needs nine bits, one more than bfloat16 keeps.",
            258: "257 lies halfway between two bfloat16 values. Which way does a tie round?",
        },
        next="find the bfloat16 value that follows 128, and how far each larger power of two is from its next value.",
        why="257 lies halfway between 256 and 258, and the tie rounds to 256.",
        proof=_stops_growing,
        stands_above="as a size of axes and blocks",
    ),
    "B": Predict(
        value=131072,
        unit="",
        tolerance=0,
        near={
            131071: "The sum of 131,071 products of 2**14 still fits. What about one more?",
            133144: "-128 is an int8 value too, and its square is larger than that of 127.",
            2**31: "That would be right if no product were larger than 1. How large can one be?",
            2**31 // 128: "That divides by 128 only once. What is the largest product of two int8 values?",
            2**31 // 127**2: "-128 is an int8 value too, and its square is larger than that of 127.",
            2**32 // 2**14: "int32 has one bit for the sign, so 31 bits are left for the value.",
        },
        why="it is 2**31 / 2**14, and every shorter sum of int8 products is safe.",
        proof=_leaves_int32,
    ),
    "C": Predict(
        value=98304,
        unit="cycles",
        tolerance=0.01,
        near={
            16384: "That is the time of one pass.",
            49152: "That is the time of three passes, which precision='high' takes.",
            2 * 98304: "A multiply-add counts once here, not as two operations.",
            147456: "That counts all nine products of the three parts, but the ones too small to matter are left out.",
        },
        why="it is six passes of 1024**3 / 65,536 cycles.",
        proof=_six_passes,
    ),
    "D": Choose(
        options=("x1 y1", "x1 y2", "x2 y1", "x2 y2"),
        right="x2 y2",
        wrong={
            "x1 y1": "x1 and y1 hold the leading bits, so their product is nearly the whole result.",
            "x1 y2": "It has one leading part and one small part. Is there a product with no leading part?",
            "x2 y1": "It has one small part and one leading part. Is there a product with no leading part?",
        },
        why="each second part is at most 2**-8 of its first part.",
        proof=_left_out,
    ),
}

EXERCISE = Exercise(
    id="07.3",
    title="Predict: what a sum can hold",
    kind="several",
    defines="held",
    asks=Several(parts=PARTS, why="bfloat16 keeps 8 bits, B is 2**31 / 2**14, C six passes, D the smallest product."),
    hints=(
        "A: a bfloat16 keeps 8 bits of a value. Up to where can it count in ones? B: which two int8 values have the "
        "largest product? C: how many passes does 'highest' take?",
        "A: n + 1 has to be a bfloat16 value, or has to round up to one. B: divide 2**31 by that product. C: one pass "
        "takes 1024**3 / 65,536 cycles.",
        "A: where neighboring values are 2 apart, adding 1 is a tie. B: -128 times -128 is 2**14. C: it is six times "
        "one pass. D: x2 and y2 are what rounding has left over, so both are small.",
    ),
    points=2,
)
