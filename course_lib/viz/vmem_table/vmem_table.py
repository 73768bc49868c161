"""A widget with a kernel's VMEM, buffer by buffer: change a block and see how much it would take."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import traitlets

from course_lib import chips, cost, grid, text
from course_lib.viz.common import draw
from course_lib.viz.common.widget import Widget, source
from course_lib.viz.vmem_table import vmem_stack


class Row(NamedTuple):
    """A buffer as vmem_stack.py draws it; ``bytes`` counts all its ``buffers``."""

    name: str
    op: str
    purpose: str
    buffers: int
    bytes: int


def vmem_table(fn: Callable, *args, chip: str = "v5e") -> "VmemTable":
    """Show every buffer that the first kernel of ``fn(*args)`` keeps in VMEM, against its limit.

    Each pipeline window counts with all its buffers, each shape padded to whole tiles, as in ``cost.vmem``. The reader
    can change blocks, scratch and the number of buffers, and the browser counts again. The limit is the kernel's
    vmem_limit_bytes, or what the chip's compiler grants. ``args`` are arrays or ShapeDtypeStructs; nothing is compiled
    or run. Raises ValueError for an unknown chip, a function without a kernel, and a kernel with nothing in VMEM.
    """
    made_of = chips.chip(chip)
    walk = grid.walk(fn, *args, chip=chip)
    if not walk.calls:
        raise ValueError("vmem_table: this function has no kernel to show. Pass one that calls pl.pallas_call.")
    call = walk.calls[0]
    buffers = cost.vmem(dataclasses.replace(walk, calls=(call,)))
    if not buffers:
        raise ValueError(
            f"vmem_table: {call.name} keeps nothing in VMEM that could be shown. Give its operands BlockSpecs, "
            "or scratch shapes of kind pltpu.VMEM."
        )
    asked = _asked(walk)
    rows = _rows(call, buffers)
    return VmemTable(
        data={
            "kernel": call.name,
            "chip": chip,
            "limit": min(asked or made_of.scoped_vmem_bytes, made_of.vmem_bytes),
            "asked": asked is not None,
            "physical": made_of.vmem_bytes,
            "rows": rows,
        },
        shapes=[row["shape"] for row in rows],
        buffers=[row["buffers"] for row in rows],
    )


class VmemTable(Widget):
    """The widget. ``shapes`` and ``buffers`` are shown row by row; ``data`` comes from the kernel."""

    _esm, _css = source(__file__, "dom.js", "units.js")
    data = traitlets.Dict().tag(sync=True)
    shapes = traitlets.List().tag(sync=True)
    buffers = traitlets.List().tag(sync=True)

    @property
    def rows(self) -> list[Row]:
        """The buffers as shown now."""
        shown = zip(self.data["rows"], self.shapes, self.buffers, strict=True)
        return [
            Row(row["name"], self.data["kernel"], row["purpose"], n, _bytes(row, shape, n)) for row, shape, n in shown
        ]

    def _still(self) -> tuple[str, str]:
        return still(self), as_text(self)


def _bytes(row: dict, shape: Sequence[int], buffers: int) -> int:
    """Return the bytes of all buffers of a row, rounded up as ``cost.vmem`` does."""
    return -(-cost.padded_bytes(shape, row["dtype"]) * buffers // row["unit"]) * row["unit"]


def still(table: VmemTable) -> str:
    """Draw the buffers as a card."""
    words = [draw.paragraph(line, size=13) for line in (*_lines(table), *_judged(table))]
    panel = draw.stacked([vmem_stack.panel(table.rows, table.data["limit"]), *words], gap=4)
    return draw.card(panel, f"VMEM of {table.data['kernel']}", verdict(table.rows, table.data))


def as_text(table: VmemTable) -> str:
    """Return the table as lines of text."""
    return "\n".join([f"VMEM of {table.data['kernel']} on a {table.data['chip']}", *_lines(table), *_judged(table)])


def _lines(table: VmemTable) -> list[str]:
    shown = zip(table.data["rows"], table.rows, table.shapes, strict=True)
    return [
        f"{row.name}, {row.purpose}: {_by(shape)} {given['dtype']}, takes "
        f"{_by(cost.padded_shape(shape, given['dtype']))}, "
        f"{text.counted(row.buffers, 'buffer')}: {text.size(row.bytes)}"
        for given, row, shape in shown
    ]


def _judged(table: VmemTable) -> list[str]:
    return [verdict(table.rows, table.data), *illegal(table.data["rows"], table.shapes)]


def verdict(rows: Sequence[Row], data: dict) -> str:
    """Say whether the buffers fit. vmem_table.js says the same."""
    total, limit, physical = sum(row.bytes for row in rows), data["limit"], data["physical"]
    if total <= limit:
        return (
            f"Fits: {text.size(total)} of {text.size(limit)} used, {text.size(limit - total)} free. The compiler "
            "needs more for itself: spilled registers, temporaries."
        )
    words = f"{text.size(total - limit)} too much: the kernel needs {text.size(total)}, and may use "
    words += f"{text.size(limit)}. The compiler would refuse it."
    if total > physical:
        return f"{words} A larger vmem_limit_bytes does not help: a {data['chip']} has {text.size(physical)}."
    return f"{words} A {data['chip']} has {text.size(physical)}: smaller blocks help, or a larger vmem_limit_bytes."


def illegal(rows: Sequence[dict], shapes: Sequence[Sequence[int]]) -> list[str]:
    """Name block sizes that break the (8, 128) rule, and the nearest that it allows. vmem_table.js says the same."""
    said = []
    for row, shape in zip(rows, shapes, strict=True):
        for axis, size in enumerate(shape if row["rule"] else ()):
            length, unit = row["array"][axis], _unit(row, axis)
            if cost.is_legal_size(size, length, axis=axis, rank=len(shape), dtype=row["dtype"]):
                continue
            near = ", ".join(map(str, _nearest(size, row, axis)))
            rule = f"a multiple of {unit}"
            if len(shape) == 1:
                rule += f", a power of two of at least {_least(row)}"
            said.append(
                f"{row['name']}, axis {axis}: {size} is not legal. It is {rule}, or the whole axis. "
                f"Nearest: {f'{near} or ' if near else ''}{length}, the whole axis."
            )
    return said


def _nearest(size: int, row: dict, axis: int) -> list[int]:
    """Return the legal sizes next to an illegal one, inside the axis: none if it is larger than the axis."""
    length = row["array"][axis]
    if size > length:
        return []
    *legal, _whole = cost.legal_sizes(length, axis=axis, rank=len(row["array"]), dtype=row["dtype"], even=False)
    below, above = [n for n in legal if n < size], [n for n in legal if n > size]
    return [*below[-1:], *above[:1]]


def _unit(row: dict, axis: int) -> int:
    """Return the unit of block sizes along an axis, by the rule of ``cost.legal_sizes``."""
    behind = len(row["array"]) - 1 - axis
    if len(row["array"]) == 1:
        return 1024
    return {0: 128, 1: 8 * _words(row) if row["itemsize"] <= 1 else 8}.get(behind, 1)


def _least(row: dict) -> int:
    """Return the smallest power of two that is a legal block of a vector."""
    return 128 * _words(row)


def _words(row: dict) -> int:
    """Return how many rows share a word of 4 bytes."""
    return max(1, int(4 / row["itemsize"]))


def _by(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _rows(call: grid.Call, buffers: list[cost.Allocation]) -> list[dict]:
    """Return a row per buffer, the operands of the call first, as ``cost.vmem`` lists them."""
    windows = [operand for operand in call.operands if operand.memory_space == "vmem"]
    rows = []
    for number, buffer in enumerate(buffers):
        operand = windows[number] if number < len(windows) else None
        array = list(operand.shape) if operand is not None else None
        rows.append(
            {
                "name": buffer.name,
                "purpose": buffer.purpose,
                "shape": list(buffer.shape),
                "dtype": np.dtype(buffer.dtype).name,
                "itemsize": _itemsize(buffer.dtype),
                "unit": buffer.unit,
                "buffers": buffer.buffers,
                "array": array,  # the operand's whole shape; None for scratch and for a pipeline in the body
                "rule": bool(array),
                "stays": operand is not None and operand.buffers == 1 and operand.block_shape == operand.shape,
            }
        )
    return rows


def _itemsize(dtype) -> float:
    """Return the bytes of an element in VMEM, half a byte of int4."""
    bits = grid.bits(cost.held_as(dtype))
    return bits / 8 if bits < 8 else bits // 8


def _asked(walk: grid.Walk) -> int | None:
    """Return the vmem_limit_bytes of the first kernel; None if it sets none."""
    first = next(grid.pallas_calls(walk.jaxpr.jaxpr))
    return getattr(first.params.get("compiler_params"), "vmem_limit_bytes", None)
