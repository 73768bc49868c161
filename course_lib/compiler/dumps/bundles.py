"""The VLIW program that libtpu dumps: its bundles one by one, and the units that each of them uses.

The files are an undocumented debugging aid, so everything is optional: anything that is missing, or differs from the
known format (libtpu 0.0.48 to 0.0.51), is left out of the result.
"""

import dataclasses
import re

from course_lib.compiler.dumps import loops
from course_lib.compiler.operations import Place
from course_lib.compiler.report import Bundle, Loop

# libtpu's names of the units in the head of its table, which differ between versions, and ours.
_UNITS = {
    "MXU": "MXU",  # 0.0.48, 0.0.50
    "MATMUL": "MXU",  # 0.0.51 separates multiplying from loading weights
    "MATPUSH": "MXU",
    "XLU": "XLU",
    "VALU": "VPU",
    "EUP": "EUP",
    "VPOP": "pop",
    "VLOAD": "load",
    "VSTORE": "store",
    "VLOAD:FILL": "fill",  # counted as loads and stores too
    "VSTORE:SPILL": "spill",
    "SALU": "scalar",
}
_LINE = re.compile(r"^ *(0x[0-9a-f]+|0) +([A-Z]{2})? *: ?((?:> ?)*) *(.*)$")
_PLACE = re.compile(r'loc\("([^"]*)":(\d+):(\d+)(?: to (\d*):(\d+))?\)')
_MARK = "@place"  # stands for the first place in a remark while the other remarks are removed
_MARKED = re.compile(_MARK + _PLACE.pattern)
_REMARK = re.compile(r"/\*(?!\w+=\*/).*?\*/", re.S)  # but not those that name an argument: /*size_in_granules=*/


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """The final VLIW code of one kernel or fusion. Counts are of the code, not of how often it runs."""

    listing: tuple[Bundle, ...]
    offered: dict[str, int]  # unit -> slots in each bundle
    used: dict[str, int]  # unit -> slots filled, all bundles together
    spills: int
    fills: int
    loops: tuple[Loop, ...] = ()


def read(op: str, code: str, table: str) -> Program:
    """Read the program of ``op`` from its two dump files: the bundles, and the table of their slots."""
    offered, rows = slot_table(table)
    total = {unit: sum(row.get(unit, 0) for row in rows) for unit in offered}
    units = {unit: n for unit, n in offered.items() if unit not in ("spill", "fill")}
    split = _split(code)
    slots = rows if len(rows) == len(split) else [{}] * len(split)
    bundles = [_bundle(op, head, body, row) for (head, body), row in zip(split, slots, strict=True)]
    return Program(
        listing=tuple(bundles),
        offered=units,
        used={unit: total[unit] for unit in units},
        spills=total.get("spill", 0),
        fills=total.get("fill", 0),
        loops=loops.read([body for _, body in split]),
    )


def slot_table(text: str) -> tuple[dict[str, int], list[dict[str, int]]]:
    """Return each bundle's slots and those it fills, by unit; both are empty if the format is unknown."""
    lines = text.splitlines()
    head = next((n for n, line in enumerate(lines) if "VALU" in line and "," in line), None)
    body = next((n for n, line in enumerate(lines) if "UTILIZATION" in line), None)
    if head is None or body is None:
        return {}, []
    units = [_UNITS.get(unit.strip(), unit.strip()) for unit in lines[head].split(",")]
    rows = [line for line in lines[body + 1 :] if line.strip()]
    different = {line: {unit: n for unit, n in _by_unit(units, line).items() if n} for line in set(rows)}
    return _by_unit(units, lines[head + 1]), [different[line] for line in rows]


def _by_unit(units: list[str], line: str) -> dict[str, int]:
    row: dict[str, int] = {}
    for unit, number in zip(units, line.split(), strict=True):
        row[unit] = row.get(unit, 0) + int(number)
    return row


def listing(op: str, text: str) -> list[Bundle]:
    """Return the bundles of a ``final_bundles`` dump in order, their instructions without libtpu's remarks."""
    return [_bundle(op, head, body, {}) for head, body in _split(text)]


def _split(text: str) -> list[tuple[re.Match, str]]:
    """Return (match of its head, its whole text) for each bundle of a dump."""
    heads, bodies = [], []
    for line in text.splitlines():
        if match := _LINE.match(line):
            heads.append(match)
            bodies.append([match[4]])
        elif bodies:  # a remark may run over several lines
            bodies[-1].append(line)
    return [(head, "\n".join(body)) for head, body in zip(heads, bodies, strict=True)]


def _bundle(op: str, head: re.Match, body: str, slots: dict[str, int]) -> Bundle:
    found = [_placed(words) for words in _instructions(body)]
    places = tuple(place for _, place in found)
    return Bundle(
        op=op,
        address=int(head[1], 16),
        depth=head[3].count(">"),
        label=head[2] or "",
        instructions=tuple(words for words, _ in found),
        slots=slots,
        places=places if any(places) else (),
    )


def _instructions(body: str) -> list[str]:
    body = _REMARK.sub(lambda remark: f" {_MARK}{place[0]} " if (place := _PLACE.search(remark[0])) else "", body)
    body = body[body.find("{") + 1 : body.rfind("}")]
    return [part for part in body.split(";;") if part.strip()]


def _placed(instruction: str) -> tuple[str, Place | None]:
    """Split an instruction into its text without the place, and the place."""
    mark = _MARKED.search(instruction)
    if mark is None:
        return " ".join(instruction.split()), None
    file, line, column, end_line, end = mark.groups()
    words = " ".join((instruction[: mark.start()] + instruction[mark.end() :]).split())
    return words, Place(file, int(line), int(column), int(end) if end and end_line in ("", line) else 0)
