"""What a bundle viewer shows of a program, and how it says so: columns, rows, loops. bundle_words.js says the same."""

import collections
from collections.abc import Sequence

from course_lib import text
from course_lib.compiler import Code
from course_lib.viz.common import core_units

LASTING = ("MXU", "XLU", "EUP")  # their columns in the table count the cycles in which they work, not what they start
LATER = "still at work on what began before"
ELSEWHERE = "taken by an operation of another column"


def columns(code: Code) -> list[str]:
    """The units that any bundle uses, in the course's order; then "DMA", for copies that are started or awaited."""
    used = {unit for bundle in code.bundles for unit, n in bundle.slots.items() if n}
    return core_units.in_order(used | {operation.unit for bundle in code.bundles for operation in bundle.operations})


def data(code: Code) -> dict:
    """Everything that the browser needs, as plain data. A row is [loops around it, uses, operations]."""
    units = columns(code)
    places = sorted({o.place[:2] for b in code.bundles for o in b.operations if o.place is not None})
    number = {place: n for n, place in enumerate(places)}
    rows = []
    for bundle in code.bundles:
        operations = [
            [units.index(o.unit), o.text, *([number[o.place[:2]], o.place.column, o.place.end] if o.place else [])]
            for o in bundle.operations
        ]
        rows.append([[bundle.slots.get(unit, 0) for unit in units], operations])
    starts = [n for n, bundle in enumerate(code.bundles) if not n or bundle.op != code.bundles[n - 1].op]
    return {
        "name": code.name,
        "chip": code.chip,
        "units": units,
        "does": [core_units.DOES.get(unit, unit) for unit in units],
        "offered": [code.offered.get(unit, 0) for unit in units],
        "kernels": [[code.bundles[n].op, n] for n in starts],
        "loops": [[loop.first, loop.last, loop.turns] for loop in code.loops],
        "busiest": code.loops.index(code.busiest) if code.busiest else -1,
        "lines": [[file if file.endswith(".py") and not _cell(file) else "", line] for file, line in places],
        "sources": [code.sources.get(place, "") for place in places],
        "rows": rows,
        "leftOut": code.left_out,
    }


def _cell(file: str) -> bool:
    """Whether a file is a notebook's cell: IPython names those by a number."""
    return file.removesuffix(".py").isdigit()


def loop_words(data: dict, number: int) -> str:
    """A loop in a sentence."""
    first, last, turns = data["loops"][number]
    makes = "a number of turns that is not known before it runs" if turns is None else text.counted(turns, "turn")
    inside = any(f <= first and last <= e and (f, e) != (first, last) for f, e, _ in data["loops"])
    each = " each time the loop around it comes to it" if inside else ""
    return f"Loop of {text.counted(last - first + 1, 'bundle')}, {first} to {last}. It makes {makes}{each}."


def times(data: dict, row: int) -> int | None:
    """How often a bundle is issued, if no branch jumps over it; None where that is not known."""
    product = 1
    for first, last, turns in data["loops"]:
        if first <= row <= last:
            if turns is None:
                return None
            product *= turns
    return product


def started(data: dict, row: int, column: int) -> list[list]:
    """The operations of a unit that a bundle starts."""
    return [operation for operation in data["rows"][row][1] if operation[0] == column]


def use(data: dict, row: int, column: int) -> int:
    """How much of a unit a bundle uses, in quarters of its slots: 0 none, 4 all."""
    uses, offered = data["rows"][row][0][column], data["offered"][column]
    most = max(uses, len(started(data, row, column)))
    return min(4, -(-4 * most // (offered or most))) if most else 0


def cell_words(data: dict, row: int, column: int) -> str:
    """A cell in words, for those who hear it."""
    unit, offered, uses = data["units"][column], data["offered"][column], data["rows"][row][0][column]
    own = started(data, row, column)
    if not own and not uses:
        return f"bundle {row}, {unit}: nothing"
    busy = f", {uses} of {offered} in use" if offered else ""
    if not own:
        return f"bundle {row}, {unit}{busy}: {LATER if unit in LASTING else ELSEWHERE}"
    return f"bundle {row}, {unit}{busy}: " + "; ".join(said(data, operation) for operation in own)


def said(data: dict, operation: list) -> str:
    """An operation, and the line that it comes from."""
    _, words, *place = operation
    if not place:
        return words
    number, column, end = place
    file, line = data["lines"][number]
    source = data["sources"][number][column : end or None].strip()
    return f"{words}, from {f'{file} ' if file else ''}line {line}" + (f", {source}" if source else "")


def loop_uses(data: dict, first: int, last: int) -> list[float]:
    """Share of each unit's slots that the bundles of a range use; of "DMA", of the bundles with any."""
    shares = []
    for column, offered in enumerate(data["offered"]):
        if offered:
            used = sum(data["rows"][row][0][column] for row in range(first, last + 1))
            shares.append(used / (offered * (last - first + 1)))
        else:
            rows = sum(bool(started(data, row, column)) for row in range(first, last + 1))
            shares.append(rows / (last - first + 1))
    return shares


def lines_of(data: dict, rows: Sequence[int]) -> list[tuple[int, int]]:
    """(line, operations) of the source, for the operations of some bundles, in order of lines."""
    counted = collections.Counter(o[2] for row in rows for o in data["rows"][row][1] if len(o) > 2)
    return [(data["lines"][number][1], n) for number, n in sorted(counted.items())]
