"""A systolic array as a widget: step through its cycles, and see when results come out."""

import traitlets

from course_lib import chips
from course_lib.viz.common.widget import Widget, source
from course_lib.viz.systolic_stepper import systolic, systolic_still

MOST = 8  # rows, and columns


def systolic_stepper(rows: int = 4, columns: int = 4) -> "SystolicStepper":
    """An array of ``rows`` x ``columns`` weights that multiplies a few rows of x, cycle by cycle, forth and back.

    The weights w[rows, columns] stay, rows of x enter from the left, each number a cycle after the one above it, and
    sums move down: y = x @ w. All numbers are small and whole, and right. Raises ValueError for an array smaller than
    1 x 1 or larger than 8 x 8.
    """
    for name, size in (("rows", rows), ("columns", columns)):
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MOST:
            raise ValueError(
                f"systolic_stepper: {name}={size!r} is no size to look at. Say a whole number, 1 to {MOST}."
            )
    w = [[(3 * row + 5 * column + row * column) % 7 + 1 for column in range(columns)] for row in range(rows)]
    x = [[(4 * m + 3 * row + m * row) % 5 + 1 for row in range(rows)] for m in range(rows + columns)]
    last = systolic.cycles(x, w)
    frames = [systolic.frame(x, w, cycle) for cycle in range(last + 1)]
    return SystolicStepper(x=x, w=w, y=systolic.out(x, w, last), frames=frames, size=chips.chip("v5e").mxu_size)


class SystolicStepper(Widget):
    """The widget. ``cycle`` cycles are done; where no browser runs its code, a still from the middle stands in."""

    _esm, _css = source(__file__, "dom.js")
    x = traitlets.List().tag(sync=True)
    w = traitlets.List().tag(sync=True)
    y = traitlets.List().tag(sync=True)
    frames = traitlets.List().tag(sync=True)  # of each cycle, from before the first on
    size = traitlets.Int(128).tag(sync=True)  # rows, and columns, of the MXU that the note is about
    cycle = traitlets.Int(0).tag(sync=True)

    def _still(self) -> tuple[str, str]:
        cycle = self.cycle or len(self.w) + 1
        return systolic_still.still(self.x, self.w, cycle), systolic.caption(self.x, self.w, cycle)
