"""Step through the grid of a pallas_call: which block of each operand a step sees, and what is copied for it."""

from collections.abc import Callable

import traitlets

from course_lib import grid
from course_lib.viz.common.widget import Widget, source
from course_lib.viz.grid_player import grid_frames, grid_step
from course_lib.viz.grid_player.grid_still import still


def grid_player(fn: Callable, *args, call: int | str = 0, chip: str = "v5e") -> "GridPlayer":
    """The grids of the kernels of ``fn(*args)``, to play step by step with mouse or keys. The kernel is not run.

    Shows per operand the array in HBM, the buffers in VMEM, what is copied between them at each step and what is not,
    and the bytes so far; what it counts is what ``cost.traffic`` counts. Where a scratch ref or an output block is
    added to over several steps, it shows how much is in it (``grid.accumulators``). A grid is a pallas_call's, or that
    of the emit_pipeline inside a pl.kernel. ``args`` are arrays or ``jax.ShapeDtypeStruct``s. Of several grids,
    ``call`` says which is shown first: its number, or the name of its kernel. The kernel is traced for ``chip``.

    Raises grid.UnreadableCall (a ValueError) where there is no kernel or none that can be read, where a grid has no
    step, or more than 1,000,000; ValueError where ``call`` is none of the grids, and for an unknown chip.
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
    """Which grid is asked for."""
    titles = [kernel["title"] for kernel in kernels]
    if call in titles:
        return titles.index(call)
    if isinstance(call, int) and -len(titles) <= call < len(titles):
        return call % len(titles)
    raise ValueError(
        f"grid_player: call={call!r} is none of the grids of this function. They are "
        f"{', '.join(f'{n}: {title!r}' for n, title in enumerate(titles))}; give the number or the name."
    )


class GridPlayer(Widget):
    """The widget. ``step`` is the step shown of grid ``call``; where no browser runs its code, a still stands in."""

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
    data = traitlets.Dict().tag(sync=True)  # words and numbers, and where in ``frames`` each array lies
    frames = traitlets.Bytes().tag(sync=True)  # the arrays, deflated
    call = traitlets.Int(0).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, kernels: list[dict], unreadable: list[str] = (), **traits):
        words, frames = grid_frames.packed({"kernels": kernels, "unreadable": list(unreadable)})
        super().__init__(data=words, frames=frames, **traits)
        self.kernels = kernels  # as they were before they were packed

    def _still(self) -> tuple[str, str]:
        kernel = self.kernels[max(0, min(self.call, len(self.kernels) - 1))]
        step = min(self.step, kernel["steps"] - 1) if self.step > 0 else grid_step.telling_step(kernel)
        return still(kernel, step), " ".join([grid_step.caption(kernel, step), *grid_step.problems(kernel, step)])
