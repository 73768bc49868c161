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
            255: "255 is held, and so is 255 + 1.",
            128: "From 128 on neighbours are 1 apart, so 129 is held.",
            512: "By 512 neighbours are 4 apart. What happens where they are 2 apart, and 1 is added?",
            65504: "That is where float16 ends. bfloat16 has few bits, and a wide range.",
            257: "257 would need nine bits.",
            258: "257 lies half way between two neighbours. Where does a tie go?",
        },
        next="which number of bfloat16 follows 128? And what follows each power of two above: how far off is it?",
        why="257 lies half way between 256 and 258, and the tie goes to 256.",
        proof=_stops_growing,
        stands_above="as a size of axes and blocks",
    ),
    "B": Predict(
        value=131072,
        unit="",
        tolerance=0,
        near={
            131071: "131,071 products of 2**14 are still inside. One more?",
            133144: "-128 is an int8, too.",
            2**31: "Each of the products is larger than 1.",
            2**31 // 128: "That divides by 128 once. What is the largest product of two such numbers?",
            2**31 // 127**2: "-128 is an int8, too.",
            2**32 // 2**14: "int32 has one bit for the sign.",
        },
        why="2**31 / 2**14: every shorter sum of int8 products is safe.",
        proof=_leaves_int32,
    ),
    "C": Predict(
        value=98304,
        unit="cycles",
        tolerance=0.01,
        near={
            16384: "That is one pass.",
            49152: "That is three passes, which is what precision='high' takes.",
            2 * 98304: "A pair multiplied and added counts once here.",
            147456: "Nine products of three parts each; those that do not matter are left out.",
        },
        why="six passes of 1024**3 / 65,536.",
        proof=_six_passes,
    ),
    "D": Choose(
        options=("x1 y1", "x1 y2", "x2 y1", "x2 y2"),
        right="x2 y2",
        wrong={
            "x1 y1": "Those are the leading bits of both. Are they not nearly all of it?",
            "x1 y2": "One leading part and one small one. Is there a product with none?",
            "x2 y1": "One small part and one leading one. Is there a product with none?",
        },
        why="each second part is 2**-8 of its first at most.",
        proof=_left_out,
    ),
}

EXERCISE = Exercise(
    id="07.3",
    title="Predict: what a sum can hold",
    kind="several",
    defines="held",
    asks=Several(parts=PARTS, why="8 bits, 2**31 / 2**14, six passes, and the smallest product."),
    hints=(
        "A: a bfloat16 has 8 bits for the number. Up to where can it count in ones? B: which two int8 have the largest "
        "product? C: how many products of bfloat16 parts?",
        "A: n + 1 has to be a bfloat16, or to be rounded up to one. B: 2**31 divided by that product. C: 1024**3 / "
        "65,536 is one pass.",
        "A: where neighbours are 2 apart, 1 more is a tie. B: -128 times -128 is 2**14. C: six times one pass. D: x2 "
        "and y2 are what rounding has left over: small, both of them.",
    ),
    points=2,
)
