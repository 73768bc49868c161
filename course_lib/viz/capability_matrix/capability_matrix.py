"""A widget with what each engine can do: a reason for every cell, and a filter by what the reader needs."""

import traitlets

from course_lib.viz.capability_matrix import matrix_still
from course_lib.viz.capability_matrix.capabilities import ENGINES, NEEDS
from course_lib.viz.common.widget import Widget, source


def capability_matrix() -> "CapabilityMatrix":
    """Show what TensorCore, SparseCore, Hopper, Ampere and plain XLA can do, with JAX 0.11.2 and this library.

    Each cell says yes, partly or no; picking it shows why, and what that rests on. The reader ticks what a workload
    needs, and the engines that lack any of it fade. Nothing is compiled or run.
    """
    return CapabilityMatrix()


class CapabilityMatrix(Widget):
    """The widget. ``needs``: numbers of the ticked rows; ``picked``: row and column of the cell that is explained."""

    _esm, _css = source(__file__, "dom.js")
    title = traitlets.Unicode("Which engine can do what you need?").tag(sync=True)
    engines = traitlets.List().tag(sync=True)  # (name, by what it is programmed)
    rows = traitlets.List().tag(sync=True)  # name, and (can, why, source) for each engine
    needs = traitlets.List().tag(sync=True)
    picked = traitlets.List([0, 0]).tag(sync=True)

    def __init__(self):
        rows = [[need.name, [list(cell) for cell in need.cells]] for need in NEEDS]
        super().__init__(engines=[list(engine) for engine in ENGINES], rows=rows)

    def _still(self) -> tuple[str, str]:
        needs = sorted(number for number in set(self.needs) if number in range(len(NEEDS)))
        row, column = self.picked
        picked = max(0, min(len(NEEDS) - 1, row)), max(0, min(len(ENGINES) - 1, column))
        return matrix_still.still(self.title, needs, picked), matrix_still.as_text(needs, picked)
