"""The figures behind ``density_dial``: sparse matmuls by density, what is wrong with them, and the same in words."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from course_lib import text, vocabulary
from course_lib.compiler import Report

MOST_CURVES = 4


class Sparse(NamedTuple):
    """A sparse matmul: its density, above 0 and at most 1, the steps of its grid, and the compiler's report on it."""

    density: float
    steps: int
    report: Report


class Dial(NamedTuple):
    """What all pictures share; ``places`` is the number of digits after the point of a density in percent."""

    curves: Mapping[str, Sequence[Sparse]]
    dense: Report
    densities: list[float]
    places: int

    def percent(self, density: float) -> str:
        """Return a density in percent, such as "13 %", halves rounded up."""
        return _percent(density, self.places)


def checked(curves: Mapping[str, Sequence[Sparse]], dense: Report) -> Dial:
    """Return the figures; raise ValueError if the curves have another form or a report has no predicted time."""
    if not isinstance(curves, Mapping) or not 1 <= len(curves) <= MOST_CURVES:
        given = text.counted(len(curves), "curve") if isinstance(curves, Mapping) else f"type {type(curves).__name__}"
        form = f"a dict of 1 to {MOST_CURVES} curves, name -> [viz.Sparse(density, steps, report), ...]"
        raise ValueError(f"density_dial: curves has {given}, but must be {form}.")
    first, densities = next((name, [point.density for point in curve]) for name, curve in curves.items())
    for name, curve in curves.items():
        here, own = f"density_dial: curves[{name!r}]", [point.density for point in curve]
        if len(own) < 2:
            raise ValueError(f"{here} has {text.counted(len(own), 'point')}, but must have at least two.")
        if not all(0 < density <= 1 for density in own) or any(a >= b for a, b in itertools.pairwise(own)):
            raise ValueError(f"{here} has densities {listed(own)}, but they must increase and lie in (0, 1].")
        if own != densities:
            raise ValueError(
                f"{here} has densities {listed(own)}, but must have those of curves[{first!r}], {listed(densities)}."
            )
        for point in curve:
            _check_time(point.report, f"the report of curves[{name!r}] at density {point.density:g}")
    _check_time(dense, "dense")
    return Dial(curves, dense, densities, _places(densities))


def _check_time(report: Report, where: str) -> None:
    if not report.seconds:
        reason = report.error.what if report.error else " ".join(report.notes)
        because = f" ({reason.strip().rstrip('.')})" if reason else ""
        raise ValueError(f"density_dial: {where} has no predicted time{because}, but must have one.")


def listed(densities: Sequence[float]) -> str:
    """Return densities for an error message."""
    return ", ".join(f"{density:g}" for density in densities)


def _percent(density: float, places: int) -> str:
    scale = 10**places
    return f"{math.floor(100 * density * scale + 0.5 + 1e-9) / scale:.{places}f} %"


def _places(densities: Sequence[float]) -> int:
    """Return the fewest digits after the point that tell the densities, in percent, from each other and from 0."""
    return next(n for n in range(20) if n == 12 or len({_percent(d, n) for d in (0, *densities)}) > len(densities))


def break_evens(curve: Sequence[Sparse], dense: Report) -> list[float]:
    """Return the densities, increasing, at which a curve takes as long as ``dense``; it is linear between points."""
    over = [(point.density, point.report.seconds - dense.seconds) for point in curve]
    found = {density for density, more in over if more == 0}
    found |= {x0 + (x1 - x0) * y0 / (y0 - y1) for (x0, y0), (x1, y1) in itertools.pairwise(over) if y0 * y1 < 0}
    return sorted(found)


def side(curve: Sequence[Sparse], dense: Report) -> str:
    """Return "below" or "above": where a curve without a break-even stays, seen from ``dense``."""
    return "below" if curve[0].report.seconds < dense.seconds else "above"


def us(report: Report) -> str:
    """Return the predicted time as a number of us."""
    return _figure(report.seconds * 1e6)


def mb(report: Report) -> str:
    """Return the HBM traffic as a number of MB, 10**6 bytes."""
    return text.NOT_KNOWN if report.hbm_bytes is None else _figure(report.hbm_bytes / 1e6)


def _figure(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def against(report: Report, dense: Report) -> str:
    """Compare a time with that of ``dense``: "2.7 times faster than dense", "as fast as dense"."""
    words = text.compared(report.seconds, dense.seconds, "slower", "faster")
    return "as fast as dense" if words == "the same" else f"{words} than dense"


def said(dial: Dial, at: int) -> str:
    """Describe the chosen density, and where the curves break even, in sentences."""
    costs, evens = [], []
    for name, curve in dial.curves.items():
        point, found = curve[at], break_evens(curve, dial.dense)
        steps, versus = text.counted(point.steps, "grid step"), against(point.report, dial.dense)
        where = "the same density" if costs else f"a density of {dial.percent(point.density)}"
        costs.append(
            f"At {where}, {name} takes {us(point.report)} us in {steps}, which is {versus}{_moves(point.report, ',')}."
        )
        stays = f"{name} stays {side(curve, dial.dense)} dense up to {dial.percent(dial.densities[-1])}"
        evens.append(f"{name} breaks even at {' and '.join(map(dial.percent, found))}" if found else stays)
    return (
        f"{' '.join(costs)} "
        f"The dense matmul takes {us(dial.dense)} us{_moves(dial.dense)}. "
        f"As the density grows, {'; '.join(evens)}. All times are {vocabulary.COMPILER}."
    )


def _moves(report: Report, comma: str = "") -> str:
    return "" if report.hbm_bytes is None else f"{comma} and moves {mb(report)} MB to and from HBM"
