"""Two programs for the same work, side by side: the operations of each unit, the spills, and what only one has."""

import collections
import math
from collections.abc import Mapping

from course_lib import text
from course_lib.compiler import Code
from course_lib.viz.common import core_units, draw
from course_lib.viz.common.picture import Picture

SPILLS, FILLS = "spilled", "filled"
_TWO = 2
_NAME, _VALUE, _ROW, _BAR = 100, 110, 44, 15
_COLOURS = (draw.BLUE, draw.ORANGE)
_MOST = 6  # kinds of operations listed in the last line


def bundle_diff(programs: Mapping[str, Code], in_a_step: bool = False) -> Picture:
    """Compare what two programs issue, unit by unit: the operations of each bundle times the iterations of its loops.

    ``programs``: two names, each with what ``compiler.bundles`` returned. "spilled" counts stores of registers that had
    to make room, "filled" the loads that bring them back; stores and loads include both. A loop with an unknown number
    of iterations counts once. For a whole run the counts are an upper bound: in some iterations of the grid loop only
    blocks are copied, and a branch jumps over the kernel. With ``in_a_step`` one iteration of the outermost loop
    counts, which is a grid step if the grid has more than one. Raises ValueError unless there are exactly two programs.
    """
    if len(programs) != _TWO or not all(isinstance(code, Code) for code in programs.values()):
        given = ", ".join(f"{name}: {type(code).__name__}" for name, code in programs.items())
        raise ValueError(
            f"bundle_diff: programs is {{{given}}}; it takes two names, each with what compiler.bundles(f, x) returns."
        )
    counts = {name: issued(code, in_a_step) for name, code in programs.items()}
    words = _words(programs, counts, in_a_step)
    panels = [draw.paragraph(line, size=16) for line in words[:2]]
    panels.append(_legend(list(programs)))
    panels += [_row(unit, [count[unit] for count in counts.values()]) for unit in _rows(counts)]
    panels.append(draw.paragraph(words[-1], size=14))
    svg = draw.card(draw.stacked(panels, 4), " and ".join(programs), "\n".join(words))
    return Picture(svg=svg, text="\n".join(words))


def issued(code: Code, in_a_step: bool = False) -> collections.Counter:
    """Count the operations, by unit, of a run or of one iteration of the outermost loop if no branch skips them."""
    found: collections.Counter[str] = collections.Counter()
    for number, bundle in enumerate(code.bundles):
        around = code.around(number)
        if in_a_step and not around:
            continue
        times = math.prod(loop.turns or 1 for loop in around[in_a_step:])
        for operation in bundle.operations:
            found[operation.unit] += times
            if "_spill]" in operation.text:
                found[SPILLS if operation.unit == "store" else FILLS] += times
    return found


def _rows(counts: dict[str, collections.Counter]) -> list[str]:
    units = {unit for count in counts.values() for unit in count} - {SPILLS, FILLS}
    return [*core_units.in_order(units), SPILLS, FILLS]


def _words(programs: Mapping[str, Code], counts: dict[str, collections.Counter], in_a_step: bool) -> list[str]:
    sizes = [f"{name} has {text.counted(len(code.bundles), 'bundle')}" for name, code in programs.items()]
    rows = [
        f"{unit}: " + ", ".join(f"{name} {count[unit]:,}" for name, count in counts.items()) for unit in _rows(counts)
    ]
    head = f"Operations issued in a {'grid step' if in_a_step else 'run, at most'}, by unit:"
    return ["; ".join(sizes) + ".", head, *rows, _alone(programs)]


def _alone(programs: Mapping[str, Code]) -> str:
    """Say what only one of the two programs does, by the mnemonics of its operations."""
    kinds = {name: _kinds(code) for name, code in programs.items()}
    (one, its), (other, others) = kinds.items()
    told = []
    for name, own, not_in in ((one, its, others), (other, others, its)):
        only = [kind for kind, _ in own.most_common() if kind not in not_in]
        told.append(f"only {name}: {', '.join(only[:_MOST]) or 'nothing'}")
    return "Kinds of operations, " + "; ".join(told) + "."


def _kinds(code: Code) -> collections.Counter:
    return collections.Counter(_kind(o.text) for bundle in code.bundles for o in bundle.operations if o.text)


def _kind(operation: str) -> str:
    """Return the mnemonic: "vld" for "v3 = vld [vmem:...]"."""
    first, *others = operation.split()
    return others[1] if others[:1] == ["="] and len(others) > 1 else first


def _legend(names: list[str]) -> draw.Panel:
    half, parts = draw.INNER / 2, []
    for place, name in enumerate(names):
        left = half * place
        parts += [draw.box(left, 4, 30, 14, _COLOURS[place]), draw.hatch(left, 4, 30, 14) if place else ""]
        parts.append(draw.label(left + 38, 16, name, half - 46, size=14))
    return draw.Panel("".join(parts), 24)


def _row(unit: str, values: list[int]) -> draw.Panel:
    left, room = _NAME, draw.INNER - _NAME - _VALUE
    most = max(*values, 1)
    parts = [draw.label(0, 22, unit, _NAME - 6, size=15, bold=True)]
    for place, value in enumerate(values):
        top = 3 + place * (_BAR + 2)
        wide = room * value / most
        parts.append(draw.box(left, top, room, _BAR, draw.TRACK))
        if value:
            parts.append(draw.box(left, top, wide, _BAR, _COLOURS[place]))
        if value and place:
            parts.append(draw.hatch(left, top, wide, _BAR))
        parts.append(draw.label(draw.INNER, top + 13, f"{value:,}", _VALUE - 6, size=14, anchor="end"))
    return draw.Panel("".join(parts), _ROW)
