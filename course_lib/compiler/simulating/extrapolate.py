"""Cycles of large grids, extrapolated along a straight line from the simulation of two smaller ones.

Simulating takes about 10 s and 1.6 GB for a million bundles issued, and most of a large grid repeats itself. A long
kernel is therefore run for a few steps and for some more, inner axes whole, and each further step costs what those
cost. This is correct only for a grid whose steps are alike, which is checked: bytes moved and operations done must lie
on a straight line too.
"""

import dataclasses
import math

from course_lib import chips, cost, grid
from course_lib.compiler.report import Extrapolation
from course_lib.compiler.simulating import estimate, rewrite, shorten

WHOLE_BUNDLES = 80_000  # programs that issue up to about this many are simulated whole
_FIRST, _FURTHER = 10_000, 20_000  # bundles of the smaller run, and how many more the larger one issues
_RHYTHM = 6  # steps: the simulator's copies repeat after 1, 2 or 3 grid steps
_TOLERANCE = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shortened:
    """A kernel call that is simulated at two smaller sizes."""

    cut: shorten.Cut
    small: int  # units of the cut
    large: int

    def line(self, small_cycles: int, large_cycles: int) -> Extrapolation:
        """Return the line through the two runs."""
        period = self.cut.period
        return Extrapolation(
            steps=self.cut.steps, small=(self.small * period, small_cycles), large=(self.large * period, large_cycles)
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What to simulate of a function."""

    calls: dict[int, Shortened]  # number of the call -> how it is cut; empty: simulate the whole
    bundles: int  # issued, roughly, by all that is simulated whole
    why: str = ""  # why a long kernel is not cut


def plan(jaxpr, args: tuple, walk: grid.Walk, chip: chips.Chip) -> Plan:
    """Plan how to shorten long kernels; leave the others unchanged."""
    known = [estimate.kernel_bundles(call, chip) for call in walk.calls]
    around = estimate.other_bundles(walk, chip)
    whole = Plan(calls={}, bundles=around + sum(n or 0 for n in known))
    if None in known or sum(known) <= WHOLE_BUNDLES or any(map(_dynamic, grid.pallas_calls(jaxpr))):
        return whole
    calls, why, rest = {}, "", around
    for number, bundles in enumerate(known):
        made, trouble = _shortened(jaxpr, args, walk, number, bundles, chip)
        if made is None:
            why, rest = why or trouble, rest + bundles
        else:
            calls[number] = made
    return Plan(calls=calls, bundles=rest, why=why)


def smaller(jaxpr, plan: Plan, which: str):
    """Return the function with its long kernels cut to their "small" or "large" size."""

    def change(number: int, eqn):
        made = plan.calls.get(number)
        return eqn if made is None else shorten.shortened(eqn, made.cut, getattr(made, which))

    return rewrite.kernels(jaxpr, change)


def _shortened(
    jaxpr, args: tuple, walk: grid.Walk, number: int, bundles: int, chip: chips.Chip
) -> tuple[Shortened | None, str]:
    """Return how one call is shortened, or None and the reason against it."""
    call, trouble = walk.calls[number], ""
    each = bundles / shorten.steps(call)
    for cut in shorten.cuts(call, each, chip) if bundles > _FIRST + _FURTHER else ():
        made = _sized(cut, each * cut.period)
        if made is None:
            continue
        if not _as_many_buffers(jaxpr, args, call, number, made):
            made = _later(made)
        if not (why := _uneven(jaxpr, args, walk, number, made)):
            return made, ""
        trouble = trouble or f"{why}, so some of them do not represent all, and "
    return None, trouble


def _sized(cut: shorten.Cut, unit: float) -> Shortened | None:
    """Return two sizes for a cut whose unit issues ``unit`` bundles; None if they are no smaller than the whole."""
    rhythm = math.lcm(cut.multiple, _RHYTHM // math.gcd(_RHYTHM, cut.period))
    if rhythm * unit > 2 * _FURTHER:
        rhythm = cut.multiple
    few = 2 if unit < _FURTHER else 1  # the first unit differs a little from the others
    small = _up(max(_FIRST / unit, 4 / cut.period, few), cut.multiple)
    large = small + _up(_FURTHER / unit, rhythm)
    return Shortened(cut=cut, small=small, large=large) if small + large < cut.units and large <= cut.longest else None


def _as_many_buffers(jaxpr, args: tuple, call: grid.Call, number: int, made: Shortened) -> bool:
    """Whether the smaller run has the same buffers as the whole.

    A block that stays for all of its steps has only one, which makes the kernel another program.
    """
    small = grid.walk_traced(smaller(jaxpr, Plan(calls={number: made}, bundles=0), "small"), args).calls[number]
    return [o.buffers for o in small.operands] == [o.buffers for o in call.operands]


def _later(made: Shortened) -> Shortened:
    """Return both sizes one unit larger, if there are enough units."""
    cut, small, large = made.cut, made.small + made.cut.multiple, made.large + made.cut.multiple
    fits = small + large < cut.units and large <= cut.longest
    return dataclasses.replace(made, small=small, large=large) if fits else made


def _uneven(jaxpr, args: tuple, full: grid.Walk, number: int, made: Shortened) -> str:
    """Return why a straight line would be wrong: the kernel's steps are not alike; "" if they are."""
    alone = Plan(calls={number: made}, bundles=0)
    small, large = (grid.walk_traced(smaller(jaxpr, alone, which), args) for which in ("small", "large"))
    for what, count in (("bytes it moves", _moved), ("operations it performs", _operations)):
        x, y, z = (count(walk.calls[number], jaxpr) for walk in (full, small, large))
        if abs(z + (z - y) / (made.large - made.small) * (made.cut.units - made.large) - x) > _TOLERANCE * x:
            return f"the {what} differ between the steps of {full.calls[number].name}"
    return ""


def _dynamic(eqn) -> bool:
    """Whether a grid's size is known only at run time."""
    return "grid_mapping" in eqn.params and eqn.params["grid_mapping"].num_dynamic_grid_bounds > 0


def _up(n: float, multiple: int) -> int:
    return max(1, math.ceil(n / multiple)) * multiple


def _moved(call: grid.Call, jaxpr) -> int:
    """Return the bytes of one run; 0 if they depend on an array's values, so that only operations can be compared."""
    try:
        return cost.hbm_bytes(grid.Walk(calls=(estimate.once(call),), jaxpr=jaxpr))
    except grid.UnreadableCall:
        return 0


def _operations(call: grid.Call, jaxpr) -> int:
    return cost.kernel_flops(estimate.once(call)).total
