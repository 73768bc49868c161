"""Golf: the minutes on a clock, computed from the seconds since midnight in the fewest cycles."""

import jax
import jax.numpy as jnp

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.golf import CYCLES, Golf
from course_lib.judges import Slip

DAY = 86_400


def _seconds() -> list[tuple]:
    """Return every second of a day in a fixed scrambled order, and random further ones."""
    first = jnp.arange(256 * 512, dtype=jnp.int32) * 7 % DAY
    return [(first.reshape(256, 512),), (jax.random.randint(jax.random.key(0), (64, 256), 0, DAY, jnp.int32),)]


def _just_below(s):
    return ((s >> 2) * 4369 >> 16) - 60 * (s // 3600)


def _twice_just_below(s):
    minutes = s * 1092 >> 16
    return minutes - 60 * (minutes * 1092 >> 16)


def _hours_just_below(s):
    return s // 60 - 60 * ((s >> 4) * 37282 >> 23)


def _just_below_in_floats(s):
    minutes, hours = (jnp.floor(s.astype(jnp.float32) * jnp.float32(1 / n)) for n in (60, 3600))
    return (minutes - 60 * hours).astype(jnp.int32)


def _too_coarse(s):
    return ((s >> 2) * 4370 >> 16) - 60 * (s // 3600)


def _hours_too_coarse(s):
    return s // 60 - 60 * ((s >> 4) * 146 >> 15)


EXERCISE = Exercise(
    id="06.9",
    title="Golf: minutes on the clock",
    kind="golf",
    defines="minutes",
    cases=_seconds,
    reference=lambda s: s // 60 % 60,
    slips=(
        Slip(
            means="these are the minutes since midnight",
            value=lambda s: s // 60,
            next="subtract 60 for each full hour.",
        ),
        *(
            Slip(
                means="at some whole minutes the quotient comes out just below the minute, and is rounded down",
                value=value,
                next="use a reciprocal that is a little too large, such as 34953 / 2**19 for 1 / 15, or add half a "
                "second before you divide.",
            )
            for value in (_just_below, _twice_just_below, _just_below_in_floats)
        ),
        Slip(
            means="at some whole hours the quotient comes out just below the hour, and is rounded down",
            value=_hours_just_below,
            next="use a reciprocal that is a little too large, such as 37283 / 2**23 for 1 / 225, or add half a "
            "second before you divide.",
        ),
        *(
            Slip(
                means=f"the reciprocal is so much too large that late in the day the {name} come a second too early",
                value=value,
                next=f"use more bits of the reciprocal: {more}.",
            )
            for name, value, more in (
                ("minutes", _too_coarse, "34953 / 2**19 is 1 / 15 to one part in 170,000"),
                ("hours", _hours_too_coarse, "37283 / 2**23 is 1 / 225 to one part in 120,000"),
            )
        ),
        Slip(
            means="the hours are minutes / 64, but an hour has 60 minutes",
            value=lambda s: s // 60 - 60 * (s // 60 >> 6),
            next="divide the seconds by 3600, by multiplying with a reciprocal and shifting.",
        ),
        Slip(
            means="only one minute is subtracted for each full hour",
            value=lambda s: s // 60 - s // 3600,
            next="subtract 60 for each full hour.",
        ),
        Slip(
            means="these are the full hours",
            value=lambda s: s // 3600,
            next="compute the minutes since midnight, and subtract 60 for each full hour.",
        ),
        Slip(
            means="this is the remainder by 64, and not by 60",
            value=lambda s: s // 60 & 63,
            next="60 is no power of two, so subtract 60 for each full hour.",
        ),
        Slip(
            means="these are the seconds on the clock",
            value=lambda s: s % 60,
            next="compute the minutes since midnight first, s // 60.",
        ),
    ),
    golf=Golf(unit=CYCLES, par=3_300),
    hints=(
        "Two things cost cycles: the divisions, and the copies during which nothing else runs. Two blocks help with "
        "the second (02.11), but more blocks cost more than they save.",
        "No value here is above 86,400, so float32 holds each exactly. A division by a constant is a multiplication by "
        "its reciprocal, rounded down. Add half a second first, which keeps the quotient away from the edge.",
        "Compute m = floor((s + 0.5) / 60) and h = floor((s + 0.5) / 3600) by multiplication, and return m - 60 h. "
        "With integers alone, multiply by a number near 2^19 / 15, and shift.",
    ),
    points=3,
)
