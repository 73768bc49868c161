"""What the instructions of a bundle do: the unit of the core that each one uses, and its text without noise."""

import re
from collections.abc import Sequence
from typing import NamedTuple

# How libtpu names the instructions of each unit; the first prefix that fits decides. An instruction with the number of
# an MXU or XLU in its name ("vmatmul.bf16.gmra.mxu0") belongs to that unit, and a pop fetches its result.
_UNITS = (
    ("vpop", "pop"),
    ("dma", "DMA"),
    ("vsync", "DMA"),
    ("vmat", "MXU"),
    ("vdwg", "MXU"),
    ("vxpose", "XLU"),
    ("vpush", "XLU"),
    ("vsetperm", "XLU"),
    ("vpow", "EUP"),
    ("vlog", "EUP"),
    ("vrcp", "EUP"),
    ("vrsqrt", "EUP"),
    ("vtanh", "EUP"),
    ("verf", "EUP"),
    ("vsinq", "EUP"),
    ("vcosq", "EUP"),
    ("vld", "load"),
    ("vst ", "store"),
    ("vst.", "store"),
    ("v", "VPU"),
)
_NONE = ("inlined_call_operand", "int_to_ptr", "sphi", "vphi", "pphi")  # remarks of the compiler that look like code
_NAME = re.compile(r"^(?:%?[\w.]+ = |\d+ = )?([a-z][\w.]*)")
_COPY = re.compile(
    r"(dma\.\w+_to_\w+)(?: \[thread:\$\d+\])?(?: +(\(!?)%p\d+_(p\d+\)),)?.*?size_in_granules=\*/(\d+)", re.S
)
_GRANULE = 32  # bytes


class Place(NamedTuple):
    """The place in a source file that an instruction comes from. Lines count from 1, columns from 0."""

    file: str
    line: int
    column: int
    end: int  # column after the last; 0 if it is not known, or on another line


class Operation(NamedTuple):
    """One operation that a bundle starts. ``place`` is None if the compiler does not say where it comes from."""

    unit: str  # "MXU", "XLU", "VPU", "EUP", "pop", "load", "store", "scalar"; "DMA": starts a copy or waits for it
    text: str
    place: Place | None = None


def read(instructions: Sequence[str], places: Sequence[Place | None] = ()) -> tuple[Operation, ...]:
    """Return the operations that the instructions start, in order, with short register names: v49, s7, p1."""
    places = places or (None,) * len(instructions)
    found = (_operation(words, place) for words, place in zip(instructions, places, strict=True))
    return tuple(each for each in found if each is not None)


def _operation(instruction: str, place: Place | None) -> Operation | None:
    name = _NAME.match(instruction)
    if name is None or name[1].startswith(_NONE):
        return None
    return Operation(_unit(name[1]), shortened(instruction), place)


def _unit(name: str) -> str:
    if name.startswith("vpop"):
        return "pop"
    for mark, unit in ((".mxu", "MXU"), (".xlu", "XLU")):
        if mark in name:
            return unit
    return next((unit for prefix, unit in _UNITS if f"{name} ".startswith(prefix)), "scalar")


def shortened(instruction: str) -> str:
    """Return an instruction without libtpu's numbering and argument names, for example "v3 = vmul.f32 2.0, v0"."""
    text = re.sub(r"^\s*%?\d+ = ", "", instruction)
    if copy := _COPY.match(text):
        name, sign, predicate, granules = copy.groups()
        return f"{name}{f' {sign}{predicate},' if sign else ','} {int(granules) * _GRANULE:,} bytes"
    text = re.sub(r"/\*.*?\*/|\[resolvable:[^\]]*\]|\[thread:\$\d+\]", "", text, flags=re.DOTALL)
    text = re.sub(r"%[a-z]+\d+_([a-z]+\d+)", r"\1", text)  # %v4204_v49 is register v49
    return " ".join(re.sub(r"(?<= )%\d+\b", "", text).split())
