"""The kind "predict": a number with its unit. A wrong number is compared with the known ways of getting it wrong."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from course_lib.checks import quantity
from course_lib.checks.quantity import Quantity
from course_lib.checks.result import Result, is_empty, not_attempted, not_yet, passed

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

_EXACT = 1e-9  # relative: the rounding error of floating point on 1.5 GB
_SHARP = 0.005  # relative: how closely a number must match a mistake of known size
_CLOSE = 1.05  # times too large or too small: the number was rounded, not miscounted
TWO_SLIPS = "Two slips: "  # begins the sentence for a number with two mistakes
_COPIED = 1e-4  # relative: an answer this close to a measured value was copied from it
_WORK_IT_OUT = "compute it from the peak, the bandwidth and the cost of a step, and write the result."
_LIST_ALL = "write down each thing you counted, with its size, and add them up."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predict:
    """A number to predict: ``value`` in ``unit``, right within ``tolerance`` (relative). ``proof`` computes it too.

    ``near`` has sentences for wrong values, in the same unit, that known mistakes lead to.
    """

    value: float
    unit: str
    tolerance: float = 0.0
    near: dict[float, str] = dataclasses.field(default_factory=dict)
    why: str  # one short sentence, printed on a pass
    proof: Callable[[], float]
    published: float | None = None  # the measured value printed below the question; copying it does not pass
    next: str = _LIST_ALL  # what to try if no known mistake explains the number
    stands_above: str = ""  # why the number may appear in the lesson or above its question; "" if it must not

    def __post_init__(self) -> None:
        quantity.unit(self.unit)  # raises for an unknown unit
        if not 0 <= self.tolerance < 0.5 or not math.isfinite(self.value) or self.value == 0:
            raise ValueError(
                f"value {self.value} and tolerance {self.tolerance}: a value other than 0, right within less than half."
            )
        if close := [wrong for wrong in self.near if _near(wrong, self.value, max(self.tolerance, _EXACT))]:
            raise ValueError(f"near has a sentence for {close[0]}, which is right within the tolerance.")


def result(task: Exercise, answer: object) -> Result:
    """Pass if ``answer`` is the declared quantity, in any unit of its kind."""
    asked: Predict = task.asks
    wanted = quantity.unit(asked.unit)
    example = quantity.example(wanted)
    if is_empty(answer):
        value = f'"{example}"' if wanted.measures else example
        return not_attempted(task.id, f"write {task.defines} = {value}, with your number")
    try:
        given = quantity.parse(answer, wanted)
    except quantity.NotAQuantity as error:
        return not_yet(task.id, "that cannot be read.", str(error), error.next)
    if given.unit.measures != wanted.measures:
        return not_yet(task.id, *_other_measure(given, wanted, example))
    if given.value <= 0 < asked.value:
        sign = "zero" if given.value == 0 else "negative"
        return not_yet(task.id, f"it is not {given}.", f"{given} is {sign}; the answer is positive.", asked.next)
    ratio = given.value / (asked.value * wanted.factor)
    if asked.published and _near(given.value, asked.published * wanted.factor, _COPIED):
        return not_yet(
            task.id,
            "that is what was measured.",
            f"{given} is the value printed below. What do you predict?",
            _WORK_IT_OUT,
        )
    if abs(ratio - 1) <= max(asked.tolerance, _EXACT):
        return passed(task.id, asked.why)
    return not_yet(task.id, f"it is not {given}.", *_diagnosis(asked, given, wanted, ratio))


def _other_measure(given: Quantity, wanted: quantity.Unit, example: str) -> tuple[str, str, str]:
    if not given.unit.measures:
        return (
            "the unit is missing.",
            f"{given} of what? The question asks for {quantity.measured(wanted)}.",
            f'write the unit too, as in "{example}".',
        )
    return (
        "that is another kind of number.",
        f"{given} is {quantity.measured(given.unit)}; the question asks for {quantity.measured(wanted)}.",
        f'give it in a unit such as that of "{example}".' if wanted.measures else quantity.ALONE,
    )


def _diagnosis(asked: Predict, given: Quantity, wanted: quantity.Unit, ratio: float) -> tuple[str, str]:
    """Return (what may have gone wrong, what to try) for a number of the right kind."""
    right = asked.value * wanted.factor
    tolerance = max(asked.tolerance, _EXACT)
    known = [wrong for wrong in asked.near if _near(given.value, wrong * wanted.factor, tolerance)]
    if known:
        sentence = asked.near[min(known, key=lambda wrong: abs(given.value / (wrong * wanted.factor) - 1))]
        which = "both" if sentence.startswith(TWO_SLIPS) else "that one thing"
        return sentence, f"fix {which}: the number gets {'larger' if ratio < 1 else 'smaller'}."
    if (unit := quantity.twin(given.unit)) and _near(given.number * unit.factor, right, tolerance):
        return (
            f"{given.unit.text} is not {unit.text}: k, M and G are powers of 1,000; Ki, Mi and Gi of 1,024.",
            "say which of the two you mean.",
        )
    for unit in quantity.as_bytes(given.unit):
        if _near(given.number * unit.factor, right, tolerance):
            return f"A lowercase b is a bit; {unit.text} is bytes, with a capital B.", "check the unit."
    return _slip(ratio, wanted, tolerance) or _off_by(ratio, asked)


def _slip(ratio: float, wanted: quantity.Unit, tolerance: float) -> tuple[str, str] | None:
    """Return the sentences for the known mistake whose size is ``ratio``; None if there is none."""
    large = "large" if ratio > 1 else "small"
    size = max(ratio, 1 / ratio) if ratio > 0 else 0
    if wanted.measures in ("memory", "bandwidth") and _near(size, 8, _SHARP):
        return f"It is 8 times too {large}: a byte has 8 bits.", "which of the two did you count?"
    for power in (1, 2, 3, 4):
        if any(_near(size, base**power, max(tolerance, _SHARP)) for base in (1000, 1024)):
            step = "a step" if power == 1 else f"{power} steps"
            return (
                f"The digits are right, but it is far too {large}: the prefix is {step} off.",
                "check the letter before the unit.",
            )
    if wanted.measures in ("work", "rate", "intensity") and _near(size, 2, _SHARP):
        return (
            f"It is {'twice' if ratio > 1 else 'half'} what it should be: a multiply-add is two operations, one "
            "multiplication and one addition.",
            "count them again, both or one by one, and each once.",
        )
    if _near(size, 2, _SHARP):
        said = "twice what it should be: something is counted" if ratio > 1 else "half of what it should be: count"
        return f"It is {said} {'twice' if ratio > 1 else 'what goes in and what comes out'}.", "list what you counted."
    return None


def _off_by(ratio: float, asked: Predict) -> tuple[str, str]:
    """Say in rough words how far off the number is, because the exact ratio would give it away."""
    large = "large" if ratio > 1 else "small"
    size = max(ratio, 1 / ratio) if ratio > 0 else math.inf
    if size < _CLOSE and asked.tolerance:
        return (
            f"Close, but a little too {large}: it should be right within {100 * asked.tolerance:g} %.",
            "keep one more digit.",
        )
    if size < _CLOSE:
        return (
            f"Close, but a little too {large}: this number can be counted exactly.",
            "did you round? If not, something at the beginning or the end is counted twice, or not at all.",
        )
    words = "by less than twice" if size < 2 else "by less than ten times" if size < 10 else "by ten times or more"
    return f"It is too {large}, {words}.", asked.next


def _near(value: float, other: float, tolerance: float) -> bool:
    return abs(value - other) <= tolerance * abs(other)
