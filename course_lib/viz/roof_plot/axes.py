"""Log axes of a plot: decades, the places of values in pixels, and grid lines with their labels."""

import dataclasses
import math
from collections.abc import Callable, Sequence

from course_lib import text
from course_lib.viz.common import draw

LEFT, RIGHT, BOTTOM = 92, draw.INNER - 20, 300  # pixels: edges of the field, whose top is 0
WIDTH = RIGHT - LEFT


@dataclasses.dataclass(frozen=True, kw_only=True)
class Axes:
    """The decades shown: from 10**x[0] to 10**x[1], and from 10**y[0] to 10**y[1]."""

    x: tuple[int, int]
    y: tuple[int, int]

    def left(self, value: float) -> float:
        """Return the pixels from the left."""
        low, high = self.x
        return LEFT + WIDTH * (math.log10(value) - low) / (high - low)

    def top(self, value: float) -> float:
        """Return the pixels from the top."""
        low, high = self.y
        return BOTTOM * (high - math.log10(value)) / (high - low)


def decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the whole decades around the values, at least one."""
    low = math.floor(math.log10(min(values)))
    return low, max(low + 1, math.ceil(math.log10(max(values))))


def grid(axes: Axes, x_name: str, y_words: Callable[[float], str]) -> str:
    """Draw a line and a number for each decade; of many decades, only every second or third is numbered."""
    parts = []
    for power, numbered in _powers(axes.x):
        x = axes.left(10.0**power)
        parts.append(draw.line(x, 0, x, BOTTOM, draw.TRACK))
        words = text.significant(10.0**power, 1) if numbered else ""
        parts.append(draw.label(x, BOTTOM + 18, words, 90, fill=draw.MUTED, anchor="middle") if words else "")
    for power, numbered in _powers(axes.y):
        y = axes.top(10.0**power)
        parts.append(draw.line(LEFT, y, RIGHT, y, draw.TRACK))
        words = y_words(10.0**power) if numbered else ""
        parts.append(draw.label(LEFT - 8, y + 4, words, LEFT - 8, fill=draw.MUTED, anchor="end") if words else "")
    parts.append(draw.label((LEFT + RIGHT) / 2, BOTTOM + 38, x_name, WIDTH, fill=draw.MUTED, anchor="middle"))
    return "".join(parts)


def _powers(decades: tuple[int, int]) -> list[tuple[int, bool]]:
    """List (power of ten, whether it is numbered)."""
    low, high = decades
    every = -(-(high - low) // 8)
    return [(power, (power - low) % every == 0) for power in range(low, high + 1)]
