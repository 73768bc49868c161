"""The program, bundle by bundle: what all units of the core do in one cycle. Long programs are abridged."""

import itertools
import re
from collections.abc import Iterator, Sequence

from course_lib import text
from course_lib.compiler.report import Bundle
from course_lib.viz.common import core_units, draw

ROWS = 60  # of all programs together
_ENDS = 6  # rows kept at each end of an innermost loop
_INSTRUCTIONS = 110  # characters in a row
_TOOLTIP = 400
_ABSENT = "No listing: the compiler's dump does not contain the bundles."
_SCROLLS = f"overflow: auto; max-height: 380px; border: 1px solid {draw.LINE}; margin: 6px 0"
_ROWS = (
    "margin: 0; padding: 8px; white-space: pre; font-size: 12px; line-height: 1.45; "
    f"color: {draw.INK}; background-color: {draw.PAPER}"
)

Line = Bundle | str  # a bundle, or words about those left out


def html(bundles: Sequence[Bundle], rows: int = ROWS) -> str:
    """Return the listing as <details>: closed, it says how long the program is; open, it scrolls."""
    if not bundles:
        return f"<p>{_ABSENT}</p>"
    names = columns(bundles)
    body = "\n".join(_html_line(line, names) for line in abridged(bundles, rows))
    return (
        f"<details><summary>{draw.escape(sentence(bundles))}</summary>"
        f'<div style="{_SCROLLS}"><pre style="{_ROWS}">{draw.escape(header(names))}\n{body}</pre></div></details>'
    )


def sentence(bundles: Sequence[Bundle]) -> str:
    """Say how long the program is, and how to read its rows."""
    programs = len({bundle.op for bundle in bundles})
    parts = f" in {programs} programs" if programs > 1 else ""
    return f"The program: {text.counted(len(bundles), 'bundle')}{parts}. A row is what all units do in one cycle."


def columns(bundles: Sequence[Bundle]) -> list[str]:
    """List the units that any bundle uses, in the course's order."""
    return core_units.in_order(unit for bundle in bundles for unit, n in bundle.slots.items() if n)


def header(names: Sequence[str]) -> str:
    """Return the line above the rows."""
    slots = "".join(f"  {name}" for name in names)
    return f"{'address':>8}   {slots}  instructions (indented by loop)"


def row(bundle: Bundle, names: Sequence[str]) -> str:
    """Format one bundle: address, loop mark, slots filled by unit, instructions."""
    widths = (len(name) + 2 for name in names)
    slots = "".join(f"{bundle.slots.get(name) or '·':>{width}}" for name, width in zip(names, widths, strict=True))
    words = shortened(bundle.instructions, _INSTRUCTIONS) or "(nothing)"
    return f"{bundle.address:>#8x} {bundle.label:<2}{slots}  {'> ' * bundle.depth}{_spill_words(bundle)}{words}"


def shortened(instructions: Sequence[str], room: int) -> str:
    """Put the instructions of a bundle on one line, without comments and with short register names."""
    plain = (re.sub(r"/\*.*?\*/|\[resolvable:[^\]]*\]", "", text, flags=re.DOTALL) for text in instructions)
    plain = (re.sub(r"%[a-z]+\d+_([a-z]+\d+)", r"\1", text) for text in plain)  # %v4204_v49 is register v49
    plain = (" ".join(re.sub(r"^\s*%\d+ = ", "", text).split()) for text in plain)
    return text.cut("; ".join(text for text in plain if text), room)


def abridged(bundles: Sequence[Bundle], rows: int = ROWS) -> Iterator[Line]:
    """Yield the bundles, or about ``rows`` of them from the innermost loops, with lines that say what is left out."""
    programs = [list(program) for _, program in itertools.groupby(bundles, key=lambda bundle: bundle.op)]
    each = max(3 * _ENDS, rows // len(programs))
    for program in programs:
        if len(programs) > 1:
            yield f"{program[0].op}: {text.counted(len(program), 'bundle')}"
        kept = _kept(program, each)
        for there, group in itertools.groupby(range(len(program)), key=kept.__contains__):
            group = list(group)
            if there:
                yield from (program[n] for n in group)
            else:
                yield f"    ... {text.counted(len(group), 'bundle')} left out ..."


def innermost_loop(program: Sequence[Bundle]) -> range:
    """Find the longest run of bundles at the greatest depth; an empty bundle belongs to the loop around it."""
    depths = list(itertools.accumulate(program, _depth, initial=0))[1:]
    deepest = max(depths)
    runs, start = [], 0
    for depth, group in itertools.groupby(depths):
        end = start + len(list(group))
        if depth == deepest:
            runs.append(range(start, end))
        start = end
    return max(runs, key=len)


def _depth(before: int, bundle: Bundle) -> int:
    return bundle.depth if bundle.instructions else max(before, bundle.depth)


def _kept(program: Sequence[Bundle], rows: int) -> set[int]:
    """Choose the bundles to show: all of a short program; else the innermost loop, or its ends and fullest part."""
    if len(program) <= rows:
        return set(range(len(program)))
    loop = innermost_loop(program)
    if len(loop) <= rows:
        return set(loop)
    middle = _fullest(program, range(loop.start + _ENDS, loop.stop - _ENDS), rows - 2 * _ENDS)
    return {*range(loop.start, loop.start + _ENDS), *middle, *range(loop.stop - _ENDS, loop.stop)}


def _fullest(program: Sequence[Bundle], among: range, rows: int) -> range:
    """Find the ``rows`` neighbours that fill the most vector and matrix slots."""
    filled = [sum(n for unit, n in program[place].slots.items() if unit != "scalar") for place in among]
    sums = [0, *itertools.accumulate(filled)]
    best = max(range(len(among) - rows + 1), key=lambda start: sums[start + rows] - sums[start])
    return among[best : best + rows]


def _spill_words(bundle: Bundle) -> str:
    """Return "[spill] " if the bundle spills a register, "[fill] " if it loads one back."""
    return "".join(f"[{word}] " for word in core_units.SPILLS if bundle.slots.get(word))


def _html_line(line: Line, names: Sequence[str]) -> str:
    if isinstance(line, str):
        return f"<em>{draw.escape(line)}</em>"
    shown = draw.escape(row(line, names))
    whole = shortened(line.instructions, _TOOLTIP)
    return f'<span title="{draw.escape(whole)}">{shown}</span>' if len(whole) > _INSTRUCTIONS else shown
