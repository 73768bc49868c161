"""A dump as plain data that JSON can hold, and back again, equal to what it was."""

from course_lib.compiler.dumps import bundles
from course_lib.compiler.dumps.folder import Dump
from course_lib.compiler.report import Bundle
from course_lib.cost import Allocation


def plain(said: Dump) -> dict:
    """Dicts, lists, text and numbers."""
    return {
        "cycles": said.cycles,
        "alike": said.alike,
        "programs": {op: _program(program) for op, program in said.programs.items()},
        "time_split": said.time_split,
        "vmem": [[piece.op, piece.bytes, piece.purpose, piece.name, piece.buffers] for piece in said.vmem],
    }


def dump(plain: dict) -> Dump:
    """What ``plain`` was made of. Raises KeyError, TypeError, ValueError or AttributeError where it was not."""
    return Dump(
        cycles=_numbers(plain["cycles"]),
        alike=_numbers(plain["alike"]),
        programs={op: _program_of(program) for op, program in plain["programs"].items()},
        time_split={op: _numbers(split) for op, split in plain["time_split"].items()},
        vmem=tuple(_allocation(*piece) for piece in plain["vmem"]),
    )


def _program(program: bundles.Program) -> dict:
    """A list for each bundle: there may be thousands, and their fields' names would fill the file."""
    listing = [[b.op, b.address, b.depth, b.label, b.instructions, b.slots] for b in program.listing]
    return {
        "listing": listing,
        "offered": program.offered,
        "used": program.used,
        "spills": program.spills,
        "fills": program.fills,
    }


def _program_of(plain: dict) -> bundles.Program:
    return bundles.Program(
        listing=tuple(_bundle(*fields) for fields in plain["listing"]),
        offered=_numbers(plain["offered"]),
        used=_numbers(plain["used"]),
        spills=int(plain["spills"]),
        fills=int(plain["fills"]),
    )


def _bundle(op: str, address: int, depth: int, label: str, instructions: list[str], slots: dict[str, int]) -> Bundle:
    return Bundle(
        op=str(op),
        address=int(address),
        depth=int(depth),
        label=str(label),
        instructions=tuple(map(str, instructions)),
        slots=_numbers(slots),
    )


def _allocation(op: str, bytes: int, purpose: str, name: str, buffers: int) -> Allocation:
    return Allocation(op=str(op), bytes=int(bytes), purpose=str(purpose), name=str(name), buffers=int(buffers))


def _numbers(plain: dict) -> dict[str, int]:
    return {str(name): int(n) for name, n in plain.items()}
