"""What the compiler's simulator said about each op of a program."""

import collections
import dataclasses

from course_lib.compiler.dumps import dump, hlo
from course_lib.compiler.report import Extrapolation
from course_lib.compiler.simulating import extrapolate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Simulation:
    """The figures of one run of each op. Identical ops are counted together, under one of them."""

    cycles: dict[str, int]
    time_split: dict[str, dict[str, int]]  # op -> what it waits for -> cycles
    lines: dict[str, Extrapolation] = dataclasses.field(default_factory=dict)  # of ops simulated on smaller grids


def of(said: dump.Dump) -> Simulation:
    """Return the simulation of a whole program."""
    return Simulation(
        cycles={op: n * said.alike[op] for op, n in said.cycles.items()},
        time_split={op: _times(split, said.alike.get(op, 1)) for op, split in said.time_split.items()},
    )


def renamed(said: dump.Dump, module: hlo.Module, whole: hlo.Module) -> dump.Dump:
    """Rename the results for ``module``, a part of ``whole``, to the names its ops have in ``whole``.

    A kernel is identified by its number; another op by its name, if it has the same operands and results in both.
    """
    names = {_known_by(op): op.name for op in whole.ops}
    new = {op.name: names[_known_by(op)] for op in module.ops if _known_by(op) in names}
    cycles, alike, split = (
        {new[op]: figure for op, figure in figures.items() if op in new}
        for figures in (said.cycles, said.alike, said.time_split)
    )
    return dataclasses.replace(said, cycles=cycles, alike=alike, time_split=split)


def _known_by(op: hlo.HloOp) -> tuple:
    return (op.name, op.kind, op.operands, op.results) if op.call is None else (op.call,)


def extrapolated(
    small: dump.Dump, large: dump.Dump, module: hlo.Module, shortened: dict[int, extrapolate.Shortened]
) -> Simulation:
    """Return the simulation of a program from two smaller ones. ``module`` is of either: ops have the same names."""
    two = of(small), of(large)
    cycles, split, lines = dict(two[1].cycles), dict(two[1].time_split), {}
    for op in module.ops:
        if op.call in shortened and all(op.name in run.cycles for run in two):
            line = shortened[op.call].line(*(run.cycles[op.name] for run in two))
            lines[op.name], cycles[op.name] = line, line.cycles
            split[op.name] = _stretched(*(run.time_split.get(op.name, {}) for run in two), line)
    return Simulation(cycles=cycles, time_split=split, lines=lines)


def of_line(op: str, line: Extrapolation, small: dict[str, int], large: dict[str, int]) -> Simulation:
    """Return the simulation of a one-op program on a line; ``small`` and ``large``: time splits at its two points."""
    return Simulation(cycles={op: line.cycles}, time_split={op: _stretched(small, large, line)}, lines={op: line})


def _stretched(small: dict[str, int], large: dict[str, int], line: Extrapolation) -> dict[str, int]:
    """Extrapolate a time split to the large grid: each part continues its growth, and the sum is that of the line."""
    if not small or not large:
        return {}
    further = (line.steps - line.large[0]) / (line.large[0] - line.small[0])
    split = {name: max(0, round(n + (n - small.get(name, 0)) * further)) for name, n in large.items()}
    largest = max(split, key=split.get)
    split[largest] += line.cycles - sum(split.values())
    return split


def time_split(simulation: Simulation, module: hlo.Module) -> dict[str, int]:
    """Return what the whole program waits for, the largest part first."""
    often = {op.name: op.times for op in module.ops}
    total: collections.Counter[str] = collections.Counter()
    for op, split in simulation.time_split.items():
        total.update(_times(split, often.get(op, 1) or 0))
    return dict(total.most_common())


def _times(split: dict[str, int], times: int) -> dict[str, int]:
    return {name: cycles * times for name, cycles in split.items()}
