"""Relative error against K on log axes: the curves, and rings around their points at one K."""

import math

from course_lib.viz.common import draw
from course_lib.viz.precision_explorer.precision_data import Curves, error_words

COLOURS = (draw.BLUE, draw.ORANGE, draw.GREEN, draw.RED, draw.PURPLE, draw.INK)
_DASHES = ("", "9 4", "3 3", "12 3 3 3", "6 3", "2 5")
_LEFT, _TOP, _HIGH = 56, 26, 250  # pixels of the field
SIZE = 13


def plot(curves: Curves, width: float, at: int | None = None) -> tuple[draw.Panel, list[float]]:
    """Draw the plot; return it and the x of each K. ``at``: the K of a still's cursor; None leaves that to the browser.

    Each curve is a group with ``data-curve``, and its ring at a K is a group with ``data-at`` inside it.
    """
    place = _Place(curves, width)
    body = _axes(curves, place)
    if at is None:
        body += f'<g data-cursor="">{_cursor(0, place)}</g>'
    else:
        body += _cursor(place.x(at), place)
    for number, curve in enumerate(curves.errors.values()):
        body += f'<g data-curve="{number}">{_curve(number, curve, place, curves.sizes, at)}</g>'
    return draw.Panel(body, place.bottom + 42), [round(place.x(k), 1) for k in curves.sizes]


def mark(number: int, x: float, y: float, size: float = 4.5) -> str:
    """Draw the mark of a curve; neighbouring curves have different shapes."""
    fill = COLOURS[number]
    if number % 3 == 0:
        return f'<circle cx="{draw.number(x)}" cy="{draw.number(y)}" r="{draw.number(size)}" fill="{fill}"/>'
    if number % 3 == 1:
        return draw.box(x - size, y - size, 2 * size, 2 * size, fill)
    far, points = 1.35 * size, []
    for right, down in ((0, -far), (far, 0), (0, far), (-far, 0)):
        points.append(f"{draw.number(x + right)} {draw.number(y + down)}")
    return f'<path d="M{"L".join(points)}z" fill="{fill}"/>'


def swatch(number: int) -> str:
    """Draw a piece of a curve, 34 x 16 pixels, for a legend."""
    return draw.line(0, 8, 34, 8, COLOURS[number], width=2.5, dash=_DASHES[number]) + mark(number, 17, 8)


class _Place:
    """The scale of the plot: places of values in pixels."""

    def __init__(self, curves: Curves, width: float):
        errors = [error for curve in curves.errors.values() for error in curve.values()]
        self.low, self.high = math.floor(math.log10(min(errors))), math.ceil(math.log10(max(errors)))
        self.high = max(self.high, self.low + 1)
        sizes = curves.sizes
        self.first, self.last = math.log2(sizes[0]), math.log2(sizes[-1])
        self.left, self.right, self.bottom = _LEFT, width - 24, _TOP + _HIGH

    def x(self, k: int) -> float:
        if self.last == self.first:
            return (self.left + self.right) / 2
        margin = 16
        inner = self.right - self.left - 2 * margin
        return self.left + margin + inner * (math.log2(k) - self.first) / (self.last - self.first)

    def y(self, error: float) -> float:
        return _TOP + _HIGH * (self.high - math.log10(error)) / (self.high - self.low)


def _axes(curves: Curves, place: _Place) -> str:
    parts = [draw.label(0, 12, "relative error", place.right, size=SIZE, fill=draw.MUTED)]
    every = -(-(place.high - place.low) // 8)
    for power in range(place.low, place.high + 1):
        y = place.y(10.0**power)
        parts.append(draw.line(place.left, y, place.right, y, draw.TRACK))
        if (power - place.low) % every == 0:
            parts.append(draw.label(place.left - 8, y + 5, f"1e{power}", 50, size=SIZE, fill=draw.MUTED, anchor="end"))
    taken = -math.inf
    for k in curves.sizes:
        x, words = place.x(k), f"{k:,}"
        half = draw.width_of(words, SIZE) / 2
        parts.append(draw.line(x, place.bottom, x, place.bottom + 5, draw.MUTED))
        if x - half > taken:
            parts.append(draw.label(x, place.bottom + 19, words, 90, size=SIZE, fill=draw.MUTED, anchor="middle"))
            taken = x + half + 6
    parts.append(draw.line(place.left, place.bottom, place.right, place.bottom, draw.MUTED))
    middle = (place.left + place.right) / 2
    name = "K, the length of the sums"
    parts.append(draw.label(middle, place.bottom + 38, name, 300, size=SIZE, fill=draw.MUTED, anchor="middle"))
    return "".join(parts)


def _cursor(x: float, place: _Place) -> str:
    return draw.line(x, _TOP, x, place.bottom, draw.INK, width=1.5, dash="2 3")


def _curve(number: int, curve: dict[int, float], place: _Place, sizes: list[int], at: int | None) -> str:
    points = {k: (place.x(k), place.y(error)) for k, error in curve.items()}
    path = "L".join(f"{draw.number(x)} {draw.number(y)}" for x, y in points.values())
    dash = f' stroke-dasharray="{_DASHES[number]}"' if _DASHES[number] else ""
    body = f'<path d="M{path}" fill="none" stroke="{COLOURS[number]}" stroke-width="2.5"{dash}/>'
    body += "".join(mark(number, *point) for point in points.values())
    for step, k in enumerate(sizes):
        if k in points and at in (None, k):
            x, y = points[k]
            ring = (
                f'<circle cx="{draw.number(x)}" cy="{draw.number(y)}" r="9" fill="none" stroke="{draw.INK}" '
                f'stroke-width="2"><title>{error_words(curve[k])}</title></circle>'
            )
            body += ring if at is not None else f'<g data-at="{step}">{ring}</g>'
    return body
