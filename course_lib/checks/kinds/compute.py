"""The kind "compute": a function of plain numbers, compared over many cases with a formula and with known mistakes."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import math
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING

from course_lib.checks import quantity
from course_lib.checks.result import Result, does_nothing, is_empty, not_attempted, not_yet, passed
from course_lib.checks.unfit import described

if TYPE_CHECKING:
    from course_lib.checks.exercise import Exercise

_MIN_CASES = 3
_FUNCTIONS = {"ceil": math.ceil, "max": max, "min": min}  # what an expression may call


@dataclasses.dataclass(frozen=True, kw_only=True)
class Formula:
    """One number that the function returns: ``formula`` in ``unit``, right within ``tolerance`` (relative).

    ``formula`` is an expression in the names that the Compute ``takes``, "2*m*k*n". ``near`` has a sentence for each
    expression that people write by mistake. ``proof(*case)`` finds the number in another way.
    """

    name: str  # what it is, as in "the FLOPs"
    unit: str
    formula: str
    proof: Callable[..., float]
    near: dict[str, str] = dataclasses.field(default_factory=dict)
    tolerance: float = 1e-9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compute:
    """A function that takes each of ``cases`` and returns ``results``: one number, or a tuple of them."""

    takes: tuple[str, ...]  # the names of its arguments
    results: tuple[Formula, ...]
    cases: tuple[tuple, ...]  # sets of arguments, three or more; messages show the first
    why: str  # one short sentence, printed on a pass
    hands: Callable = lambda argument: argument  # what the function gets for an argument, without what it must find

    def __post_init__(self) -> None:
        if not isinstance(self.results, tuple) or not self.results:
            raise ValueError(f"results is {self.results!r:.60}; it is a tuple of Formula, one or more.")
        if len(self.cases) < _MIN_CASES:
            raise ValueError(f"cases has {len(self.cases)} sets of arguments; {_MIN_CASES} or more are needed.")
        for case in self.cases:
            if len(case) != len(self.takes):
                raise ValueError(f"the case {case!r:.60} has {len(case)} arguments; takes names {len(self.takes)}.")
        for result in self.results:
            quantity.unit(result.unit)  # raises for an unknown unit
            rights = self.values(result.formula)
            for wrong, sentence in result.near.items():
                if _agree(self.values(wrong), rights, result.tolerance):
                    raise ValueError(f"near of {result.name} has {sentence!r:.60} for a formula that is right.")

    def values(self, expression: str, cases: tuple[tuple, ...] | None = None) -> list[float]:
        """Evaluate an expression for each case, or for other ``cases``. Raise ValueError if it gives no number."""
        try:
            code = compile(expression, "<formula>", "eval")
            names = {"__builtins__": {}} | _FUNCTIONS
            return [eval(code, names | dict(zip(self.takes, case, strict=True))) for case in cases or self.cases]
        except Exception as error:
            raise ValueError(
                f"the formula {expression!r} cannot be evaluated: {error}. It may use {', '.join(self.takes)}, "
                f"{', '.join(_FUNCTIONS)}."
            ) from None


def result(task: Exercise, answer: object) -> Result:
    """Pass if the function returns the right numbers for every case."""
    asked: Compute = task.asks
    if is_empty(answer) or does_nothing(answer):
        return not_attempted(task.id, f"write the body of {task.defines}")
    if not callable(answer):
        return not_yet(
            task.id,
            "it is not a function.",
            f"What you passed to check is {described(answer)}.",
            f"{task.defines} is a function that you define, with def {task.defines}(...): as in the cell. Pass it "
            f'without parentheses: checks.check("{task.id}", {task.defines}).',
        )
    returned = []
    for case in asked.cases:
        call = _call(task, case)
        try:
            value = answer(*map(asked.hands, case))
        except Exception as error:
            return not_yet(
                task.id, "it raises an error.", f"{call} raises {type(error).__name__}: {error!s:.200}", _names(task)
            )
        value = _listed(value)
        if problem := _unfit(value, asked):
            return not_yet(task.id, "it returns something else.", f"{call} returned {problem}", _order(asked))
        returned.append([_plain(v) for v in (value if len(asked.results) > 1 else [value])])
    for place, result in enumerate(asked.results):
        if complaint := _complaint(task, result, [values[place] for values in returned], answer):
            return not_yet(task.id, f"look at {result.name}.", *complaint)
    return passed(task.id, asked.why)


def _complaint(task: Exercise, result: Formula, values: list[float], answer: Callable) -> tuple[str, str] | None:
    """Return (what is wrong with the values of one result, what to try); None if nothing is."""
    asked: Compute = task.asks
    rights = asked.values(result.formula)
    if _agree(values, rights, result.tolerance):
        return None
    for wrong, sentence in result.near.items():
        if _agree(values, asked.values(wrong), result.tolerance):
            at = _first_wrong(values, rights, result.tolerance)
            right = _shown(rights[at], result)
            one_of = f" for {result.name}" if result.unit and len(asked.results) > 1 else ""
            return sentence, f"fix that; {_call(task, asked.cases[at])} should give {right}{one_of}."
    for other in asked.results:
        if other is not result and _agree(values, asked.values(other.formula), other.tolerance):
            return f"You return {other.name} where {result.name} should be.", _order(asked)
    if _are_rounded(values, rights):
        return f"{_by_example(task, result, values, rights)} Your values are rounded.", "do not round."
    if known := _wrong_in_one_argument(asked, result, values, rights) or _ignored(asked, result, answer):
        return f"{_by_example(task, result, values, rights)} {known[0]}", known[1]
    return _by_example(task, result, values, rights), "work through this case on paper, and compare line by line."


def _wrong_in_one_argument(
    asked: Compute, result: Formula, values: list[float], rights: list[float]
) -> tuple[str, str] | None:
    """Report values that have one argument too often or too rarely as a factor, or that differ by one number."""
    for name, column in zip(asked.takes, zip(*asked.cases, strict=True), strict=True):
        if len(set(map(str, column))) < 2 or not all(isinstance(a, numbers.Real) for a in column):
            continue
        pairs = [(v, r, a) for v, r, a in zip(values, rights, column, strict=True)]
        if all(_close(v, r * a, 1e-6) for v, r, a in pairs):
            return f"It is {name} times as large as it should be.", f"find where {name} is a factor too many."
        if all(_close(v * a, r, 1e-6) for v, r, a in pairs):
            return f"Your value times {name} would be right.", f"find where the factor {name} is missing."
    off = [v - r for v, r in zip(values, rights, strict=True)]
    if off[0] and all(abs(o - off[0]) <= 1e-6 * max(abs(off[0]), abs(r)) for o, r in zip(off, rights, strict=True)):
        by = quantity.shown(float(f"{abs(off[0]):.4g}"), result.unit)
        which = "more" if off[0] > 0 else "less"
        return f"Every case is {by} {which} than it should be.", "look for a term that is left out, or one too many."
    return None


def _ignored(asked: Compute, result: Formula, answer: Callable) -> tuple[str, str] | None:
    """Report an argument that the right number depends on, and the learner's does not."""
    place = asked.results.index(result)

    def own(case: tuple) -> float:
        value = _listed(answer(*map(asked.hands, case)))
        return _plain(value[place] if len(asked.results) > 1 else value)

    for n, name in enumerate(asked.takes):
        numbers_there = {case[n]: None for case in asked.cases if isinstance(case[n], numbers.Real)}
        changed = [(case, (*case[:n], other, *case[n + 1 :])) for case in asked.cases for other in numbers_there]
        rights = [asked.values(result.formula, pair) for pair in changed]
        differ = [pair for pair, (one, other) in zip(changed, rights, strict=True) if not _close(one, other, 1e-6)]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                is_ignored = bool(differ) and all(own(one) == own(other) for one, other in differ)
        except Exception:  # it cannot take such a case
            continue
        if is_ignored:
            return (
                f"The result does not depend on {name}, but should.",
                f"find where {name} belongs; a fixed number in its place fits one case only.",
            )
    return None


def _by_example(task: Exercise, result: Formula, values: list[float], rights: list[float]) -> str:
    """Describe the first wrong case, and say whether all are off by one factor."""
    at = _first_wrong(values, rights, result.tolerance)
    got, right = _shown(values[at], result), quantity.shown(rights[at], result.unit)
    ratios = [v / r for v, r in zip(values, rights, strict=True) if r]
    said = f"{_call(task, task.asks.cases[at])} gives {got}; it should be {right}."
    if len(ratios) == len(values) and ratios[0] > 0 and all(_close(r, ratios[0], 1e-6) for r in ratios):
        return f"{said} Every case is {quantity.shown(float(f'{ratios[0]:.4g}'), 'times')} what it should be."
    right_ones = sum(_close(v, r, result.tolerance) for v, r in zip(values, rights, strict=True))
    return f"{said} {right_ones} of {len(values)} cases are right."


def _are_rounded(values: list[float], rights: list[float]) -> bool:
    """Whether all values are whole, and what is asked for, rounded up or down."""
    pairs = zip(values, rights, strict=True)
    return all(value in (math.floor(right), math.ceil(right)) for value, right in pairs)


def _first_wrong(values: list[float], rights: list[float], tolerance: float) -> int:
    pairs = enumerate(zip(values, rights, strict=True))
    return next(at for at, (value, right) in pairs if not _close(value, right, tolerance))


def _agree(values: list[float], others: list[float], tolerance: float) -> bool:
    return all(_close(value, other, tolerance) for value, other in zip(values, others, strict=True))


def _close(value: float, other: float, tolerance: float) -> bool:
    return abs(value - other) <= tolerance * abs(other)


def _unfit(value: object, asked: Compute) -> str:
    """Return what was returned and why it cannot be compared; "" if it can."""
    count = len(asked.results)
    if value is None:
        return "None: is the return missing?"
    if count > 1:
        if not isinstance(value, tuple | list) or len(value) != count:
            return f"{described(value)}; it should return {count} numbers."
        return next((text for v in value if (text := _no_number(v))), "")
    return _no_number(value)


def _no_number(value: object) -> str:
    plain = _plain(value)
    if isinstance(plain, bool) or not isinstance(plain, numbers.Real):
        return f"{value!r:.60}, which is not a plain number."
    return "" if math.isfinite(plain) else f"{plain}, which is not a possible value."


def _plain(value: object) -> object:
    """Convert a NumPy or JAX scalar to a Python number."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def _listed(value: object) -> object:
    """Convert an array with one axis to a list of Python numbers."""
    return value.tolist() if len(getattr(value, "shape", ())) == 1 and hasattr(value, "tolist") else value


def _shown(value: float, result: Formula) -> str:
    """Return a number with its unit; if it has none, with the name of the quantity."""
    return quantity.shown(value, result.unit) if result.unit else f"{quantity.shown(value, '')} for {result.name}"


def _order(asked: Compute) -> str:
    """Say what to return, and in which order."""
    each = ", ".join(f"{result.name} ({result.unit or 'a plain number'})" for result in asked.results)
    several = f"return {len(asked.results)} numbers, in this order: " if len(asked.results) > 1 else "return "
    return f"{several}{each}."


def _names(task: Exercise) -> str:
    return f"call {task.defines} yourself with these arguments, in a cell of your own."


def _call(task: Exercise, case: tuple) -> str:
    return f"{task.defines}({', '.join(map(repr, case))})"
