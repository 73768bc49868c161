"""Smaller versions of a kernel call: fewer steps of its grid or fewer iterations of its loop, otherwise unchanged.

The arrays, blocks and index maps stay; only the first steps are run. A body that asks ``program_id(2) == 7`` for the
last step of an axis of 8 is changed to ask for the last step of the shorter axis.
"""

import dataclasses
import math
from collections.abc import Iterator

import jax.extend.core

from course_lib import chips, grid
from course_lib.compiler.simulating import rewrite
from course_lib.grid.jaxprs import is_variable, map_inside

MAX_PERIOD = 60_000  # bundles: inner axes up to this long are kept whole
_SHORTEST_LOOP = 8
_NEVER = -1
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cut:
    """A place where a kernel call can be cut: it runs ``units`` of ``period`` steps each, and a few units are kept."""

    axis: int | None  # grid axis to cut: outer axes run once, inner ones whole; None: a loop is cut
    period: int
    units: int
    longest: int  # the most units that a smaller call may have
    multiple: int = 1  # their number is a multiple of this

    @property
    def steps(self) -> int:
        return self.units * self.period


def steps(call: grid.Call) -> int:
    """Return the steps of a call's grid, or the iterations of its loop if there is no grid."""
    loop = _loop(call.kernel) if call.steps == 1 else None
    return call.steps if loop is None else loop.params["length"]


def cuts(call: grid.Call, bundles_per_step: float, chip: chips.Chip) -> list[Cut]:
    """Return the places to cut a call whose steps issue ``bundles_per_step`` bundles each, the best first.

    The best is the outermost axis whose period is short enough. Then come the axes inside it, and then those outside
    it, whose periods are long.
    """
    found = list(_grid_cuts(call, chip) if call.steps > 1 else _loop_cuts(call))
    short = [cut for cut in found if cut.period * bundles_per_step <= MAX_PERIOD]
    return short + [cut for cut in reversed(found) if cut not in short]


def shortened(eqn, cut: Cut, units: int):
    """Cut a kernel call down to ``units`` units."""
    if cut.axis is None:
        return map_inside(eqn, lambda body: _with_loop(body, _loop(body), units * cut.period))
    mapping = eqn.params["grid_mapping"]
    outer, inner = mapping.grid[: cut.axis], mapping.grid[cut.axis + 1 :]
    sizes = (*(1 for _ in outer), units, *inner)
    eqn = map_inside(eqn, lambda body: _with_last_steps(body, mapping.grid, sizes))
    return eqn.replace(params=eqn.params | {"grid_mapping": mapping.replace(grid=sizes)})


def _grid_cuts(call: grid.Call, chip: chips.Chip) -> Iterator[Cut]:
    # A chip of two cores splits the first parallel axis in half, so that axis must stay whole, or stay even.
    shared = call.semantics.index("parallel") if chip.cores > 1 and "parallel" in call.semantics else len(call.grid)
    for axis, size in enumerate(call.grid[: shared + 1]):
        period = math.prod(call.grid[axis + 1 :])
        multiple = chip.cores if axis == shared else 1
        if size > 2 * multiple:
            yield Cut(axis=axis, period=period, units=call.steps // period, longest=size - 1, multiple=multiple)


def _loop_cuts(call: grid.Call) -> Iterator[Cut]:
    loop = _loop(call.kernel)
    for period in _periods(call, loop.params["length"]) if loop is not None else ():
        units = loop.params["length"] // period
        if units > 2:
            yield Cut(axis=None, period=period, units=units, longest=units - 1)


def _periods(call: grid.Call, length: int) -> Iterator[int]:
    """Yield the iterations after which a loop repeats itself, the largest first: those of a pipeline's inner axes."""
    try:
        (pipeline,) = grid.inner_pipelines(call)
    except (grid.UnreadableCall, ValueError):
        pipeline = None
    if pipeline is not None and math.prod(pipeline.grid) == length:
        yield from (math.prod(pipeline.grid[axis + 1 :]) for axis, size in enumerate(pipeline.grid) if size > 2)
    yield 1


def _loop(kernel):
    """Return the one long loop of a kernel's body; None unless it has exactly one."""
    straight_line = grid.equations(kernel, closed=("scan", "while", "cond"))
    loops = [eqn for eqn in straight_line if eqn.primitive.name == "scan"]
    long = [eqn for eqn in loops if eqn.params["length"] >= _SHORTEST_LOOP]
    return long[0] if len(long) == 1 and not long[0].params["reverse"] else None


def _with_loop(body, loop, turns: int):
    """Run ``loop`` in the body ``turns`` times; comparisons with its last iterations move to the new last ones."""
    inner, length = loop.params["jaxpr"], loop.params["length"]
    counters = {e.invars[0] for e in inner.eqns if _adds_one(e) and e.outvars[0] in inner.outvars}

    def later(eqn):
        return _asking(eqn, counters, lambda n: n - (length - turns) if n > length // 2 else n)

    new = loop.replace(
        params=loop.params | {"length": turns, "jaxpr": inner.replace(eqns=list(map(later, inner.eqns)))}
    )
    return rewrite.equations(body, lambda eqn: new if eqn is loop else None)


def _with_last_steps(body, sizes: tuple[int, ...], shorter: tuple[int, ...]):
    """Change comparisons with the last step of an axis in the body to its new last step."""
    cut = {axis: (size, new) for axis, (size, new) in enumerate(zip(sizes, shorter, strict=True)) if size != new}
    ids = {
        eqn.outvars[0]: cut[eqn.params["axis"]]
        for eqn in grid.equations(body)
        if eqn.primitive.name == "program_id" and eqn.params["axis"] in cut
    }

    def change(eqn):
        asked = ids.get(eqn.invars[0]) if eqn.primitive.name in ("eq", "ne") and is_variable(eqn.invars[0]) else None
        return _asking(eqn, {eqn.invars[0]}, lambda n: _step_kept(n, *asked)) if asked else None

    return rewrite.equations(body, change)


def _step_kept(n: int, size: int, shorter: int) -> int:
    """Return the step of the shorter axis that stands for step n: the first for the first, the last for the last."""
    if n == 0 or n < shorter - 1:
        return n
    return shorter - 1 if n == size - 1 and shorter > 1 else _NEVER


def _adds_one(eqn) -> bool:
    if eqn.primitive.name != "add" or not is_variable(eqn.invars[0]) or is_variable(eqn.invars[1]):
        return False
    return eqn.invars[1].aval.shape == () and eqn.invars[1].val == 1


def _asking(eqn, variables: set, new):
    """Change a comparison of one of ``variables`` with a number to ``new(number)``; leave other equations unchanged."""
    if eqn.primitive.name not in _COMPARISONS:
        return eqn
    left, right = eqn.invars
    if not is_variable(left) or left not in variables or is_variable(right):
        return eqn
    value = right.aval.dtype.type(new(int(right.val)))
    return eqn.replace(invars=[left, jax.extend.core.Literal(value, right.aval)])
