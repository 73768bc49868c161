"""Places for the names of marks in a plot, so that they cover neither each other nor the lines."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from course_lib.viz.common import draw

_SIZE = 12  # font size
_MARK = 7  # half the width of a mark
# where a name may lie relative to its mark, best first: (right, down, anchor)
_PLACES = (
    (12, 4, "start"),
    (10, 18, "start"),
    (-12, 4, "end"),
    (-10, 18, "end"),
    (0, 22, "middle"),
    (10, -10, "start"),
    (-10, -10, "end"),
    (10, 34, "start"),
    (-10, 34, "end"),
    (10, 50, "start"),
    (-10, 50, "end"),
)
_ON_LINE, _ON_NAME, _OUTSIDE = 1, 10, 100


class Box(NamedTuple):
    """A rectangle, by its sides in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether the two overlap."""
        return not (
            self.right <= other.left or other.right <= self.left or self.bottom <= other.top or other.bottom <= self.top
        )

    def holds(self, other: "Box") -> bool:
        """Whether the other lies entirely inside."""
        return (
            self.left <= other.left
            and self.top <= other.top
            and other.right <= self.right
            and other.bottom <= self.bottom
        )


class Name(NamedTuple):
    """The place of a name: its baseline, and which end of it lies at ``x``."""

    x: float
    y: float
    anchor: str
    box: Box


def placed(
    marks: Sequence[tuple[float, float]],
    names: Sequence[str],
    field: Box,
    line: Sequence[tuple[float, float]] = (),
    written: Sequence[Box] = (),
) -> list[Name]:
    """Find a place for the name of each mark: inside ``field`` and, if possible, clear of the bent ``line``, the marks,
    what is ``written`` already, and the other names.
    """
    taken = [*written] + [around(*mark) for mark in marks]
    found = []
    for (x, y), name in zip(marks, names, strict=True):
        tried = [at(x + right, y + down, anchor, name) for right, down, anchor in _PLACES]
        best = freest(tried, field, taken, line)
        taken.append(best.box)
        found.append(best)
    return found


def freest(tried: Sequence[Name], field: Box, taken: Sequence[Box], line: Sequence[tuple[float, float]] = ()) -> Name:
    """Return the first of the places ``tried`` that has the least in its way."""
    on_line = [Box(x - 2, y - 2, x + 2, y + 2) for x, y in _dots(line)]
    return min(tried, key=lambda place: _cost(place.box, field, taken, on_line))


def at(x: float, y: float, anchor: str, name: str, *, bold: bool = False) -> Name:
    """Put a name at a place."""
    width = draw.width_of(name, _SIZE, bold)
    left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
    return Name(x, y, anchor, Box(left, y - 11, left + width, y + 3))


def around(x: float, y: float, half: float = _MARK) -> Box:
    """Return the box of a mark; ``half`` is half its width in pixels."""
    return Box(x - half, y - half, x + half, y + half)


def _cost(box: Box, field: Box, taken: Sequence[Box], on_line: Sequence[Box]) -> float:
    return (
        _OUTSIDE * (not field.holds(box))
        + _ON_NAME * sum(box.meets(other) for other in taken)
        + _ON_LINE * any(box.meets(dot) for dot in on_line)
    )


def _dots(line: Sequence[tuple[float, float]], step: float = 4) -> list[tuple[float, float]]:
    """Return points along a bent line, a few pixels apart."""
    dots = []
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        n = max(1, round(max(abs(x1 - x0), abs(y1 - y0)) / step))
        dots += [(x0 + (x1 - x0) * i / n, y0 + (y1 - y0) * i / n) for i in range(n + 1)]
    return dots
