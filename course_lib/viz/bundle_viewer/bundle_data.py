"""The program that a bundle viewer shows, as plain data: columns, rows, and loops with a sentence about each."""

from course_lib import text
from course_lib.compiler import Code
from course_lib.viz.common import core_units


def columns(code: Code) -> list[str]:
    """List the units that any bundle uses, in the course's order; "DMA" stands for copies started or awaited."""
    used = {unit for bundle in code.bundles for unit, n in bundle.slots.items() if n}
    return core_units.in_order(used | {operation.unit for bundle in code.bundles for operation in bundle.operations})


def data(code: Code) -> dict:
    """Return everything that the browser needs, as plain data. A row is [uses, operations]."""
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
    found = {
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
    return found | {"loopWords": [loop_words(found, n) for n in range(len(code.loops))]}


def _cell(file: str) -> bool:
    """Whether a file is a notebook cell: IPython names those by a number."""
    return file.removesuffix(".py").isdigit()


def loop_words(data: dict, number: int) -> str:
    """Describe a loop in a sentence."""
    first, last, turns = data["loops"][number]
    makes = "a number of iterations that is not known in advance" if turns is None else text.counted(turns, "iteration")
    inside = any(f <= first and last <= e and (f, e) != (first, last) for f, e, _ in data["loops"])
    each = " each time the loop around it reaches it" if inside else ""
    return f"Loop of {text.counted(last - first + 1, 'bundle')}, {first} to {last}. It runs {makes}{each}."


def started(data: dict, row: int, column: int) -> list[list]:
    """List the operations that a bundle starts on a unit."""
    return [operation for operation in data["rows"][row][1] if operation[0] == column]


def use(data: dict, row: int, column: int) -> int:
    """Return how many quarters of a unit's slots a bundle uses: 0 is none, 4 is all."""
    uses, offered = data["rows"][row][0][column], data["offered"][column]
    most = max(uses, len(started(data, row, column)))
    return min(4, -(-4 * most // (offered or most))) if most else 0


def loop_uses(data: dict, first: int, last: int) -> list[float]:
    """Return the share of each unit's slots that a range of bundles uses; for "DMA", the share of bundles with any."""
    shares = []
    for column, offered in enumerate(data["offered"]):
        if offered:
            used = sum(data["rows"][row][0][column] for row in range(first, last + 1))
            shares.append(used / (offered * (last - first + 1)))
        else:
            rows = sum(bool(started(data, row, column)) for row in range(first, last + 1))
            shares.append(rows / (last - first + 1))
    return shares
