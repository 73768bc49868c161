"""A dump converted to plain data that JSON can hold, and restored from it unchanged."""

from course_lib.compiler.dumps import bundles
from course_lib.compiler.dumps.dump import Dump
from course_lib.compiler.operations import Place
from course_lib.compiler.report import Bundle, Loop
from course_lib.cost import Allocation


def plain(said: Dump) -> dict:
    """Convert a dump to dicts, lists, strings and numbers."""
    return {
        "cycles": said.cycles,
        "alike": said.alike,
        "programs": {op: _program(program) for op, program in said.programs.items()},
        "time_split": said.time_split,
        "vmem": [[piece.op, piece.bytes, piece.purpose, piece.name, piece.buffers] for piece in said.vmem],
    }


def dump(plain: dict) -> Dump:
    """Restore the dump from ``plain``. Raises KeyError, TypeError, ValueError or AttributeError if that is not one."""
    return Dump(
        cycles=_numbers(plain["cycles"]),
        alike=_numbers(plain["alike"]),
        programs={op: _program_of(program) for op, program in plain["programs"].items()},
        time_split={op: _numbers(split) for op, split in plain["time_split"].items()},
        vmem=tuple(_allocation(*piece) for piece in plain["vmem"]),
    )


def _program(program: bundles.Program) -> dict:
    """Store each bundle as a list: there may be thousands, and field names would fill the file."""
    listing = [[b.op, b.address, b.depth, b.label, b.instructions, b.slots, b.places] for b in program.listing]
    return {
        "listing": listing,
        "offered": program.offered,
        "used": program.used,
        "spills": program.spills,
        "fills": program.fills,
        "loops": [[loop.first, loop.last, loop.turns] for loop in program.loops],
    }


def _program_of(plain: dict) -> bundles.Program:
    return bundles.Program(
        listing=tuple(_bundle(*fields) for fields in plain["listing"]),
        offered=_numbers(plain["offered"]),
        used=_numbers(plain["used"]),
        spills=int(plain["spills"]),
        fills=int(plain["fills"]),
        loops=tuple(_loop(*fields) for fields in plain["loops"]),
    )


def _bundle(
    op: str, address: int, depth: int, label: str, instructions: list[str], slots: dict[str, int], places: list
) -> Bundle:
    return Bundle(
        op=str(op),
        address=int(address),
        depth=int(depth),
        label=str(label),
        instructions=tuple(map(str, instructions)),
        slots=_numbers(slots),
        places=tuple(_place(*place) if place else None for place in places),
    )


def _place(file: str, line: int, column: int, end: int) -> Place:
    return Place(str(file), int(line), int(column), int(end))


def _loop(first: int, last: int, turns: int | None) -> Loop:
    return Loop(first=int(first), last=int(last), turns=None if turns is None else int(turns))


def _allocation(op: str, bytes: int, purpose: str, name: str, buffers: int) -> Allocation:
    return Allocation(op=str(op), bytes=int(bytes), purpose=str(purpose), name=str(name), buffers=int(buffers))


def _numbers(plain: dict) -> dict[str, int]:
    return {str(name): int(n) for name, n in plain.items()}
