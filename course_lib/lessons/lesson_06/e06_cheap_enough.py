"""A power, a sine and a division to bfloat16 accuracy, in an eighth of the cycles."""

import jax
import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.judges import Slip
from course_lib.lessons.lesson_06 import core
from course_lib.lessons.lesson_06.ripple import accepted, calling, slow

TIMES_FEWER = 8
_INTERVALS = {"a": (0.5, 2), "p": (0.5, 3), "x": (-1.5, 1.5), "s": (1, 2)}
SIZES = ((16, 256), (20, 300), (5, 130))


def _arguments() -> list[tuple]:
    """Return random values, each operand in its own interval."""
    return [_at(m, n, jax.random.key(m)) for m, n in SIZES]


def _at(m: int, n: int, key) -> tuple:
    shapes = {"a": (m, n), "p": (1, n), "x": (m, n), "s": (1, n)}
    return tuple(
        jax.random.uniform(each, shapes[name], jnp.float32, *_INTERVALS[name])
        for name, each in zip(shapes, jax.random.split(key, len(shapes)), strict=True)
    )


LARGE = tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((32, 512), (1, 512)) * 2)

EXERCISE = Exercise(
    id="06.6",
    title="Cheap enough",
    kind="write",
    defines="ripple_kernel",
    cases=_arguments,
    reference=accepted,
    build=calling,
    slips=(
        Slip(
            means="sin(x) is replaced by x, which is good for small angles only",
            value=lambda a, p, x, s: a**p * x / s,
            next="use two more terms: x - x^3 / 6 + x^5 / 120.",
        ),
        Slip(
            means="sin(x) is replaced by x - x^3 / 6, which at x = 1.5 is off by 6 %",
            value=lambda a, p, x, s: a**p * (x - x**3 / 6) / s,
            next="add one more term, x^5 / 120.",
        ),
        Slip(
            means="the power is exp(p log2(a)), in which the exponential and the logarithm have different bases",
            value=lambda a, p, x, s: jnp.exp(p * jnp.log2(a)) * jnp.sin(x) / s,
            next="exp2 goes with log2, and exp with log.",
        ),
        Slip(
            means="base and exponent are exchanged, so this is p to the power of a",
            value=lambda a, p, x, s: p**a * jnp.sin(x) / s,
            next="a to the power of p is exp2(p * log2(a)).",
        ),
        Slip(
            means="the result is multiplied by s, and not divided",
            value=lambda a, p, x, s: a**p * jnp.sin(x) * s,
            next="multiply by 1 / s.",
        ),
    ),
    also=(
        core.at_most(
            lambda: core.cycles_once(slow, *LARGE) // TIMES_FEWER,
            "For a[32, 512] the core takes {mine} cycles, predicted (compiler), not counting waits for copies. It may "
            "take {most}, an eighth of what slow_ripple takes.",
            "price each part alone with compiler.op_cost: the power, the sine and the division. Which one is the most "
            "expensive now?",
            *LARGE,
            build=calling,
        ),
    ),
    also_at=lambda: [_at(*LARGE[0].shape, jax.random.key(0))],
    achieved=core.won("slow_ripple takes", lambda: core.cycles_once(slow, *LARGE), *LARGE, build=calling),
    hints=(
        "The power and the sine can each be computed in two cycles a register or less. What does a division by a "
        "single row cost? Price it alone.",
        "a is above 0, so exp2(p * log2(a)) is its power. x stays within 1.5, so a short polynomial is enough. s has "
        "one row, so compute 1 / s once for all rows of a.",
        "With y = x * x, the polynomial x * (1 + y * (-1 / 6 + y * (1 / 120))) is off by some 3 parts in 1,000.",
    ),
    points=3,
)
