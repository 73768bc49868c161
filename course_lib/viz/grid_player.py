"""Step through the grid of a pallas_call: which block of each operand a step sees, and what is copied for it."""

import pathlib
from collections.abc import Callable

import anywidget
import traitlets

from course_lib import grid

_HERE = pathlib.Path(__file__).parent
MAX_BLOCKS = 64  # along one axis; more would be smaller than a pixel can show


def grid_player(fn: Callable, *args) -> "GridPlayer":
    """The grid of the first kernel of ``fn(*args)``, to play step by step with mouse or arrow keys.

    That is a pallas_call's grid, or the one of the emit_pipeline inside a pl.kernel. ``args`` are arrays or
    ``jax.ShapeDtypeStruct``s; the kernel is not run. Raises ValueError where there is no kernel, or where an operand
    has more than two axes, more than 64 blocks along one, or blocks that overlap (pl.Element).
    """
    calls = grid.walk(fn, *args).calls
    if not calls:
        raise ValueError("grid_player: this function has no pallas_call to show. Pass one that calls a kernel.")
    return GridPlayer(data=frames(_pipeline(calls[0])))


def _pipeline(call: grid.Call) -> grid.Pipeline:
    """What there is to step through: the pipeline in a kernel's body, if it makes its own, else the call's grid."""
    inside = grid.pipelines(call) if call.steps == 1 and grid.copies_by_hand(call) else []
    return inside[0] if inside else call


class GridPlayer(anywidget.AnyWidget):
    """The widget. ``step`` is the step shown; where no browser runs its code, a still picture stands in."""

    _esm = _HERE / "grid_player.js"
    _css = _HERE / "grid_player.css"
    data = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        data["image/svg+xml"] = still(self.data, self.step)
        data["text/plain"] = caption(self.data, self.step)
        return data, metadata


def frames(call: grid.Pipeline) -> dict:
    """What the player needs of a call, as plain lists."""
    for operand in call.operands:
        if any(operand.element):
            raise ValueError(
                f"grid_player: the blocks of {operand.name} are counted in elements (pl.Element) and may overlap; it "
                "can show blocks that lie side by side. Try whole block sizes."
            )
        if len(operand.shape) > 2 or max(operand.blocks, default=1) > MAX_BLOCKS:
            raise ValueError(
                f"grid_player: {operand.name} of shape {operand.shape} has {operand.blocks} blocks; it can show up to "
                f"two axes of {MAX_BLOCKS} blocks. Try a smaller array with the same blocks."
            )
    return {
        "kernel": call.name,
        "grid": list(call.grid),
        "steps": [list(call.step(n)) for n in range(call.steps)],
        "operands": [
            {
                "name": o.name,
                "role": o.role,
                "shape": list(o.shape),
                "dtype": str(o.dtype),
                "block": list(o.block_shape),
                "blocks": list(o.blocks),
                "indices": o.indices.tolist(),
                "copied": (o.fetched | o.written).astype(int).tolist(),
                "bytes": o.block_bytes.tolist(),
            }
            for o in call.operands
        ],
    }


def caption(data: dict, step: int) -> str:
    """The step in words."""
    where = ", ".join(f"{o['name']} block {_tuple(o['indices'][step])}" for o in data["operands"])
    return f"Step {step + 1} of {len(data['steps'])}, grid index {_tuple(data['steps'][step])}: {where}"


def still(data: dict, step: int) -> str:
    """The step as SVG, for pages where no kernel runs."""
    cell, gap, top = 26, 40, 44
    parts, x = [], 10
    height = top + cell * max(_rows(o) for o in data["operands"]) + 34
    for operand in data["operands"]:
        columns, rows = _columns(operand), _rows(operand)
        current = ([0, 0] + operand["indices"][step])[-2:]
        parts.append(f'<text x="{x}" y="18" font-weight="bold">{operand["name"]}</text>')
        parts.append(f'<text x="{x}" y="34">{operand["dtype"]}{operand["shape"]}</text>')
        for row in range(rows):
            for column in range(columns):
                here = [row, column] == current
                fill, text = ("#0072b2", "white") if here else ("#eef2f6", "#445")
                label = f"{row},{column}" if len(operand["blocks"]) > 1 else str(column)
                left, up = x + column * cell, top + row * cell
                parts.append(
                    f'<rect x="{left}" y="{up}" width="{cell - 2}" height="{cell - 2}" fill="{fill}" stroke="#667"/>'
                    f'<text x="{left + cell / 2 - 1}" y="{up + cell / 2 + 3}" fill="{text}" text-anchor="middle" '
                    f'font-size="9">{label}</text>'
                )
        x += max(columns * cell, 8 * len(f"{operand['dtype']}{operand['shape']}")) + gap
    width = max(x, 8 * len(caption(data, step)))
    parts.append(f'<text x="10" y="{height - 10}">{caption(data, step)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="#223"><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>"
    )


def _columns(operand: dict) -> int:
    return operand["blocks"][-1] if operand["blocks"] else 1


def _rows(operand: dict) -> int:
    return operand["blocks"][0] if len(operand["blocks"]) > 1 else 1


def _tuple(numbers: list[int]) -> str:
    return str(tuple(numbers))
