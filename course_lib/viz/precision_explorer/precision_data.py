"""Relative errors of a matmul at several K, checked, and in words: correct digits, cycles."""

import dataclasses
import math
import numbers
import operator
from collections.abc import Mapping

from course_lib import text, vocabulary

MOST = 6  # curves, one for each colour


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curves:
    """``errors``: curve -> {K: relative error}; ``cycles``: curve -> cycles of one matmul, if known."""

    errors: dict[str, dict[int, float]]
    cycles: dict[str, int]

    @property
    def sizes(self) -> list[int]:
        """Every K, in ascending order."""
        return sorted({k for curve in self.errors.values() for k in curve})


def checked(errors: object, cycles: object) -> Curves:
    """Check the curves. Raises ValueError that names the argument, what it was, and what it may be."""
    wanted = "errors={curve: {K: relative error}}, such as {'bf16 operands': {128: 1.2e-3, 256: 1.1e-3}}"
    if not isinstance(errors, Mapping) or not errors:
        raise ValueError(f"precision_explorer: errors={errors!r} is not a dict of curves. Give {wanted}.")
    if len(errors) > MOST:
        raise ValueError(f"precision_explorer: errors has {len(errors)} curves, but there is room for {MOST}.")
    found = {str(name): _checked_curve(name, curve, wanted) for name, curve in errors.items()}
    return Curves(errors=found, cycles=_checked_cycles(cycles, found))


def _checked_curve(name: object, curve: object, wanted: str) -> dict[int, float]:
    if not isinstance(curve, Mapping) or not curve:
        raise ValueError(f"precision_explorer: errors[{name!r}]={curve!r} is not a curve. Give {wanted}.")
    found = {}
    for k, error in curve.items():
        if not _whole(k) or k < 1:
            raise ValueError(
                f"precision_explorer: K={k!r} in errors[{name!r}] is not a size: it must be a whole number, 1 or more."
            )
        if not isinstance(error, numbers.Real) or not math.isfinite(error) or error <= 0:
            raise ValueError(
                f"precision_explorer: errors[{name!r}][{k!r}]={error!r} cannot be shown on a log axis. Give a relative "
                "error above 0; leave out a K without an error."
            )
        found[operator.index(k)] = float(error)
    return dict(sorted(found.items()))


def _checked_cycles(cycles: object, errors: Mapping[str, object]) -> dict[str, int]:
    if cycles is None:
        return {}
    if not isinstance(cycles, Mapping):
        raise ValueError(f"precision_explorer: cycles={cycles!r} is neither a dict of curve -> cycles nor None.")
    for name, value in cycles.items():
        if name not in errors:
            raise ValueError(
                f"precision_explorer: cycles[{name!r}] belongs to no curve. errors has: {', '.join(map(repr, errors))}."
            )
        if not isinstance(value, numbers.Real) or isinstance(value, bool) or not 0 < value < math.inf:
            raise ValueError(
                f"precision_explorer: cycles[{name!r}]={value!r} is not a number of cycles. Give a number above 0."
            )
    return {name: round(cycles[name]) for name in errors if name in cycles}


def _whole(value: object) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)


def error_words(error: float | None) -> str:
    """Format an error with two digits: "1.2e-3"."""
    if error is None:
        return "no figure"
    mantissa, exponent = f"{error:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def digits_words(error: float | None) -> str:
    """Say about how many decimal digits are correct: "2.9 digits"."""
    if error is None:
        return ""
    digits = max(0.0, -math.log10(error))
    return f"{digits:.1f} digits" if digits >= 0.05 else "no digit"


def sentence(curves: Curves, k: int) -> str:
    """Say all that is known at one K."""
    parts = []
    for name, curve in curves.errors.items():
        error, cycles = curve.get(k), curves.cycles.get(name)
        right = f", about {digits_words(error)} correct" if error is not None else ""
        parts.append(f"{name}: {error_words(error)}{right}{f', {text.count(cycles)} cycles' if cycles else ''}")
    whose = f" Cycles of one matmul, {vocabulary.COMPILER}." if curves.cycles else ""
    return f"K = {k:,}. {'; '.join(parts)}.{whose}"
