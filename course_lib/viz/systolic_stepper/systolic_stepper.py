"""A widget that steps through the cycles of a systolic array and shows when results come out."""

import traitlets

from course_lib import chips
from course_lib.viz.common.widget import Widget, source
from course_lib.viz.systolic_stepper import systolic, systolic_still

MOST = 8  # rows, and columns


def systolic_stepper(rows: int = 4, columns: int = 4) -> "SystolicStepper":
    """Step an array of ``rows`` x ``columns`` weights through a few rows of x, cycle by cycle, forwards and backwards.

    The weights w[rows, columns] stay in place, rows of x enter from the left, each element a cycle after the one above
    it, and sums move down: y = x @ w. All values are small integers and exact. Raises ValueError for an array smaller
    than 1 x 1 or larger than 8 x 8.
    """
    for name, size in (("rows", rows), ("columns", columns)):
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MOST:
            raise ValueError(
                f"systolic_stepper: {name}={size!r} is not a size to show. Give a whole number from 1 to {MOST}."
            )
    w = [[(3 * row + 5 * column + row * column) % 7 + 1 for column in range(columns)] for row in range(rows)]
    x = [[(4 * m + 3 * row + m * row) % 5 + 1 for row in range(rows)] for m in range(rows + columns)]
    last = systolic.cycles(x, w)
    frames = [systolic.frame(x, w, cycle) for cycle in range(last + 1)]
    return SystolicStepper(x=x, w=w, y=systolic.out(x, w, last), frames=frames, size=chips.chip("v5e").mxu_size)


class SystolicStepper(Widget):
    """The widget. It shows the state after ``cycle`` cycles; the still of cycle 0 is one from the middle."""

    _esm, _css = source(__file__, "dom.js")
    x = traitlets.List().tag(sync=True)
    w = traitlets.List().tag(sync=True)
    y = traitlets.List().tag(sync=True)
    frames = traitlets.List().tag(sync=True)  # for each cycle, starting before the first
    size = traitlets.Int(128).tag(sync=True)  # rows, and columns, of the MXU in the note
    cycle = traitlets.Int(0).tag(sync=True)

    def _still(self) -> tuple[str, str]:
        cycle = self.cycle or len(self.w) + 1
        return systolic_still.still(self.x, self.w, cycle), systolic.caption(self.x, self.w, cycle)
