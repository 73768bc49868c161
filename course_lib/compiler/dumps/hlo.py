"""XLA's optimized module: which ops run, how often, and how many bytes each moves to and from HBM.

XLA's text names a memory space in each layout: none is HBM, S(1) is VMEM. Bytes are counted from shapes, padded to the
tiles that XLA names, each operand and each result once; an op that reads an operand several times moves more.
"""

import dataclasses
import math
import re
from collections.abc import Iterator

from course_lib.compiler.dumps import relayouts, trip_counts

KERNEL = "kernel"  # a Pallas kernel; other ops keep XLA's word
TAG = "course_call"  # metadata of a Pallas kernel: its number among the calls of the traced function
_BITS = {"pred": 8}  # other names contain their number of bits: bf16, s32, f8e4m3fn
_ARRAY = re.compile(r"\b(pred|[a-z]{1,2}(\d+)\w*)\[([\d,]*)\](?:\{([^}]*)\})?")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%([\w.\-]+) = (.*?) ([a-z][\w\-]*)\((.*)$")
_TILE = re.compile(r"T\(([\d,]+)\)")
_NAME = re.compile(r"%([\w.\-]+)")
_CALLED = re.compile(r"\b(?:calls|body|to_apply|true_computation|false_computation)=%([\w.\-]+)")
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
_TAG = re.compile(TAG + r"\W+(\d+)")
_WINDOW = re.compile(r'"\w+_window_bounds":\[[^\]]*\]')
_ITERATIONS = re.compile(r'"iteration_bounds":(\[[^\]]*\])')
_NO_WORK = {
    "add-dependency", "after-all", "async-done", "async-update", "bitcast", "constant", "copy-done",
    "get-tuple-element", "parameter", "partition-id", "replica-id", "slice-done", "tuple",
}  # fmt: skip
_ENTERED = {"while", "call", "conditional"}
_SLICES = {"dynamic-slice", "slice", "gather"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class HloOp:
    """One op that does work."""

    name: str
    kind: str  # "kernel" for a Pallas kernel, else XLA's own word
    times: int | None  # how often the module runs it; None if that depends on data
    operands: tuple[int, ...]  # bytes of each operand that are in HBM
    results: tuple[int, ...]
    call: int | None = None  # of a Pallas kernel: its number among the calls of the traced function
    windows: tuple[str, ...] = ()  # blocks into which XLA cuts the arrays of its own ops, in XLA's notation
    iterations: tuple[int, ...] = ()  # the grid of iterations over them
    turned: tuple[tuple[str, int, str], ...] = ()  # of a kernel: "in" or "out", which array, the transposing copy

    @property
    def hbm_bytes(self) -> int:
        """Bytes of one run, counted from the shapes."""
        return sum(self.operands) + sum(self.results)

    @property
    def reads_again(self) -> bool:
        """Whether it is a matmul or convolution of several windows, which may read an operand more than once."""
        kernel = next((window for window in self.windows if "kernel_window" in window), "[]")
        return not kernel.endswith("[]") and math.prod(self.iterations) > 1 and any(self.operands)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Module:
    """The ops of a module, in the order they run."""

    ops: tuple[HloOp, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Instruction:
    name: str
    opcode: str
    type: str  # of the result, as XLA writes it
    operands: tuple[str, ...]
    text: str  # everything after the opcode
    root: bool


def read(text: str) -> Module:
    """Read the module in the text of an executable's HLO; it has no ops if the format is unknown."""
    computations, entry = _computations(text)
    if entry is None:
        return Module()
    return Module(ops=tuple(_ops(computations, entry, 1)))


def _computations(text: str) -> tuple[dict[str, list[_Instruction]], str | None]:
    found, entry, current = {}, None, []
    for line in _lines(text):
        if match := _COMPUTATION.match(line):
            current = found.setdefault(match[2], [])
            entry = match[2] if match[1] else entry
        elif match := _INSTRUCTION.match(line):
            current.append(
                _Instruction(
                    root=bool(match[1]),
                    name=match[2],
                    type=match[3],
                    opcode=match[4],
                    operands=tuple(_NAME.findall(match[5].split(")", 1)[0])),
                    text=match[5],
                )
            )
    return found, entry


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of the text, joining those of one instruction: metadata is broken over several."""
    held = ""
    for line in text.splitlines():
        if _INSTRUCTION.match(line) or _COMPUTATION.match(line) or line in ("", "}"):
            yield held
            held = line
        else:
            held += line
    yield held


def _ops(computations: dict, name: str, times: int | None) -> Iterator[HloOp]:
    types = {i.name: i.type for i in computations.get(name, ())}
    for i in computations.get(name, ()):
        if i.opcode in _ENTERED:
            often = _times(i, times, computations, name)
            for inner in _called(i):
                yield from _ops(computations, inner, often)
        elif i.opcode not in _NO_WORK:
            yield _op(i, types, computations, times, computations[name])


def _times(i: _Instruction, times: int | None, computations: dict, name: str) -> int | None:
    """Return how often the computations that ``i`` enters run, if ``i`` itself runs ``times`` times."""
    if i.opcode == "call" or times is None:
        return times
    trips = trip_counts.trips(i, computations, name) if i.opcode == "while" else None
    return None if trips is None else times * trips


def _called(i: _Instruction) -> list[str]:
    branches = _BRANCHES.search(i.text)
    return _CALLED.findall(i.text) + (_NAME.findall(branches[1]) if branches else [])


def _op(
    i: _Instruction, types: dict[str, str], computations: dict, times: int | None, inside: list[_Instruction]
) -> HloOp:
    kernel = 'custom_call_target="tpu_custom_call"' in i.text
    tag = _TAG.search(i.text)
    arrays = _arrays(i.type)
    if i.opcode in ("copy-start", "async-start", "slice-start"):
        arrays = arrays[:1] if i.opcode == "copy-start" else arrays[-1:]  # the rest repeats the operands
    operands = [sum(_arrays(types.get(name, ""))) for name in i.operands]
    if i.opcode == "fusion":
        operands, arrays = _in_fusion(operands, arrays, [c for name in _called(i) for c in computations.get(name, ())])
    elif i.opcode in _SLICES:
        operands[:1] = [min(operands[0], _whole_bytes(i.type))]
    elif i.opcode == "slice-start":
        operands[:1] = [min(operands[0], _sizes(i.type)[-1][0])]
    return HloOp(
        name=i.name,
        turned=relayouts.copies(i, inside) if kernel else (),
        kind=KERNEL if kernel else i.opcode,
        times=times,
        operands=tuple(operands),
        results=tuple(arrays),
        call=int(tag[1]) if kernel and tag else None,
        windows=tuple(_WINDOW.findall(i.text)),
        iterations=tuple(int(n) for text in _ITERATIONS.findall(i.text) for n in re.findall(r"\d+", text)),
    )


def _in_fusion(operands: list[int], results: list[int], body: list[_Instruction]) -> tuple[list[int], list[int]]:
    """Return what a fusion really moves: the slices of an operand that it only slices, the update of one it updates."""
    parameters = {int(i.text.split(")", 1)[0]): i.name for i in body if i.opcode == "parameter"}
    root = next((i for i in body if i.root), None)
    types = {i.name: i.type for i in body}
    moved = list(operands)
    for number, name in parameters.items():
        users = [i for i in body if name in i.operands]
        if number < len(moved) and users and all(i.opcode in _SLICES and i.operands[0] == name for i in users):
            moved[number] = min(moved[number], sum(_whole_bytes(i.type) for i in users))
        if root is not None and root.opcode == "dynamic-update-slice" and root.operands[0] == name and users == [root]:
            moved[number] = 0
            results = [min(sum(results), _whole_bytes(types.get(root.operands[1], "")))]
    return moved, results


def _arrays(type: str) -> list[int]:
    """Return the bytes in HBM of each array of a type: 0 for one in another memory, and for a scalar."""
    return [0 if re.search(r"S\([1-9]\d*\)", layout) else size for size, layout in _sizes(type)]


def _whole_bytes(type: str) -> int:
    """Return the bytes of a type's arrays, in whatever memory."""
    return sum(size for size, _ in _sizes(type))


def _sizes(type: str) -> list[tuple[int, str]]:
    """Return the bytes and layout of each array of a type, except scalars."""
    return [
        (math.ceil(math.prod(_stored(shape, layout)) * _BITS.get(name, int(bits or 0)) / 8), layout)
        for name, bits, shape, layout in _ARRAY.findall(type)
        if shape
    ]


def _stored(shape: str, layout: str) -> list[int]:
    """Return the sizes of an array as stored: axes in the layout's order, the last of them padded to its tile.

    XLA names the fastest axis first: "1,0:T(8,128)" is row-major, "0,1:T(8,128)" column-major.
    """
    sizes = [int(n) for n in shape.split(",")]
    order, _, rest = layout.partition(":")
    if order:
        sizes = [sizes[int(axis)] for axis in reversed(order.split(","))]
    tiled = _TILE.match(rest)
    tile = [int(n) for n in tiled[1].split(",")][-len(sizes) :] if tiled else []
    free = len(sizes) - len(tile)
    return sizes[:free] + [-(-n // t) * t for n, t in zip(sizes[free:], tile, strict=True)]
