"""A widget that steps through the grid of a pallas_call: the block of each operand at a step, and what is copied."""

from collections.abc import Callable

import traitlets

from course_lib import grid
from course_lib.viz.common.widget import Widget, source
from course_lib.viz.grid_player import grid_frames, grid_step
from course_lib.viz.grid_player.grid_still import still


def grid_player(fn: Callable, *args, call: int | str = 0, chip: str = "v5e") -> "GridPlayer":
    """Step through the grids of the kernels of ``fn(*args)`` with the mouse or the keyboard, without running them.

    The player shows, for each operand, the array in HBM, the buffers in VMEM, what is copied between them at each step
    and what is not, and the bytes so far, counted as ``cost.traffic`` counts them. If several steps add to a scratch
    ref or an output block, it shows how much the accumulator holds (``grid.accumulators``). A grid is that of a
    pallas_call, or of the emit_pipeline inside a pl.kernel. ``args`` are arrays or ``jax.ShapeDtypeStruct``s. With
    several grids, ``call`` says which to show first: its number, or the name of its kernel. ``chip``: the chip to trace
    for.

    Raises grid.UnreadableCall (a ValueError) if there is no readable kernel, or if a grid has no step or more than
    1,000,000; ValueError if ``call`` is none of the grids, and for an unknown chip.
    """
    walk = grid.walk(fn, *args, chip=chip)
    if not walk.calls:
        raise grid.UnreadableCall(
            "grid_player: this function has no pallas_call to show. Pass one that calls a kernel."
        )
    shown, unreadable = grid_frames.grids(walk)
    kernels = []
    for each in shown:
        try:
            kernels.append(grid_frames.kernel_frames(each))
        except grid.UnreadableCall as error:
            unreadable.append(str(error))
    if not kernels:
        raise grid.UnreadableCall(f"grid_player: {unreadable[0]}")
    return GridPlayer(kernels, unreadable, call=_number(call, kernels))


def _number(call: int | str, kernels: list[dict]) -> int:
    """Return the number of the grid that ``call`` names."""
    titles = [kernel["title"] for kernel in kernels]
    if call in titles:
        return titles.index(call)
    if isinstance(call, int) and -len(titles) <= call < len(titles):
        return call % len(titles)
    raise ValueError(
        f"grid_player: call={call!r} is not a grid of this function. Its grids are "
        f"{', '.join(f'{n}: {title!r}' for n, title in enumerate(titles))}; give the number or the name."
    )


class GridPlayer(Widget):
    """The widget. It shows ``step`` of the grid number ``call``."""

    _esm, _css = source(
        __file__,
        "dom.js",
        "units.js",
        "grid_step.js",
        "grid_plane.js",
        "grid_operand.js",
        "grid_accumulator.js",
        "grid_timeline.js",
    )
    data = traitlets.Dict().tag(sync=True)  # words, numbers, and where in ``frames`` each array lies
    frames = traitlets.Bytes().tag(sync=True)  # the arrays, compressed
    call = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, kernels: list[dict], unreadable: list[str] = (), **traits):
        words, frames = grid_frames.packed({"kernels": kernels, "unreadable": list(unreadable)})
        super().__init__(data=words, frames=frames, **traits)
        self.kernels = kernels  # before packing

    def _still(self) -> tuple[str, str]:
        kernel = self.kernels[max(0, min(self.call, len(self.kernels) - 1))]
        step = min(self.step, kernel["steps"] - 1) if self.step > 0 else grid_step.telling_step(kernel)
        return still(kernel, step), " ".join([grid_step.caption(kernel, step), *grid_step.problems(kernel, step)])
