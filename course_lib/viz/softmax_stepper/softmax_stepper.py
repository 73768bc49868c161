"""A widget that steps through online softmax of one row of scores, which the reader may change."""

import math
from collections.abc import Sequence

import traitlets

from course_lib.viz.common.widget import Widget, source
from course_lib.viz.softmax_stepper import softmax_still
from course_lib.viz.softmax_stepper.softmax_steps import MASKED

FEWEST, MOST = 4, 24  # keys in a row
LARGEST_SCORE, LARGEST_VALUE = 100, 1000  # in magnitude


def softmax_stepper(scores: Sequence[float], values: Sequence[float] | None = None, block: int = 4) -> "SoftmaxStepper":
    """Step online softmax through one query's row of scores, ``block`` keys at a time; the reader may change a score.

    ``scores``: 4 to 24 numbers from -100 to 100, one for each key, or -inf for a masked key; ``values``: the first
    column of v, a number from -1000 to 1000 for each key, None for 1, 2, 3, ... Both are rounded to hundredths. The
    browser computes m, shrink = exp(m_old - m_new), l and acc of each step, and o = acc / l beside plain softmax.
    Raises ValueError for anything else.
    """
    row = _numbers("scores", scores, LARGEST_SCORE, masks=True)
    if not FEWEST <= len(row) <= MOST:
        raise ValueError(f"softmax_stepper: scores has {len(row)} numbers, but must have {FEWEST} to {MOST}.")
    column = _numbers("values", range(1, len(row) + 1) if values is None else values, LARGEST_VALUE)
    if len(column) != len(row):
        raise ValueError(
            f"softmax_stepper: values has {len(column)} numbers, but must have one for each of the {len(row)} scores."
        )
    if type(block) is not int or not 1 <= block <= len(row):
        raise ValueError(
            f"softmax_stepper: block={block!r} is not a number of keys for a step: it must be an integer from 1 to "
            f"{len(row)}."
        )
    finite = [score for score in row if score is not None] or [0]
    low, high = min(-2, math.floor(min(finite)) - 1), max(4, math.ceil(max(finite)) + 2)
    return SoftmaxStepper(scores=row, values=column, block=block, low=low, high=high)


def _numbers(name: str, given: object, largest: int, masks: bool = False) -> list[float | None]:
    """Return numbers rounded to hundredths, None for -inf if ``masks``. Raise ValueError if they are none."""
    may = f"a number from -{largest} to {largest}{', or -inf for a masked key' if masks else ''}"
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise ValueError(f"softmax_stepper: {name}={given!r} is not a row of numbers; each must be {may}.")
    found = []
    for place, each in enumerate(given):
        try:
            value = math.nan if isinstance(each, str) else float(each)
        except (TypeError, ValueError):
            value = math.nan
        if not abs(value) <= largest and not (masks and value == MASKED):
            raise ValueError(f"softmax_stepper: {name}[{place}] is {each!r}, but must be {may}.")
        found.append(None if value == MASKED else round(value, 2) + 0.0)
    return found


class SoftmaxStepper(Widget):
    """The widget. ``step``: how many blocks are done; ``scores``: the row now, with None for a masked key."""

    _esm, _css = source(__file__, "dom.js", "units.js", "softmax_steps.js")
    scores = traitlets.List().tag(sync=True)
    values = traitlets.List().tag(sync=True)
    block = traitlets.Int(4).tag(sync=True)
    low = traitlets.Float().tag(sync=True)  # scores at the lower and upper end of the bars
    high = traitlets.Float().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    @property
    def row(self) -> list[float]:
        """The scores now, -inf for a masked key."""
        return [MASKED if score is None else score for score in self.scores]

    def _still(self) -> tuple[str, str]:
        shown = softmax_still.Row(self.row, self.values, self.block, self.low, self.high)
        return softmax_still.still(shown), softmax_still.as_text(shown)
