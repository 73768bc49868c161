"""What the pictures of a machine share: a unit with its name, an arrow with its width, and sizes."""

from course_lib.viz.common import draw

OUTSIDE, MEMORY, CONTROL, UNIT = "#eef1f5", "#fdf3d8", "#e6dff0", "#cfe3f1"
BIG, PLAIN, SMALL = 19, 16, 15  # font sizes; on a page 480 pixels wide, two thirds of that


def unit(x: float, y: float, width: float, height: float, fill: str, name: str, *lines: str) -> str:
    """Draw a unit or a memory, with its name and lines about it."""
    body = draw.box(x, y, width, height, fill, stroke=draw.INK, radius=4)
    body += draw.label(x + 10, y + 23, name, width - 14, size=BIG, bold=True)
    return body + "".join(
        draw.label(x + 10, y + 44 + 19 * n, line, width - 14, size=SMALL) for n, line in enumerate(lines)
    )


def arrow(x1: float, y1: float, x2: float, y2: float, *, both: bool = False, thick: float = 3) -> str:
    """Draw a horizontal or vertical arrow; its line ends inside the heads."""
    dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    start = (x1 + 6 * dx, y1 + 6 * dy) if both else (x1, y1)
    found = draw.line(*start, x2 - 6 * dx, y2 - 6 * dy, draw.INK, width=thick)
    return found + _head(x2, y2, dx, dy) + (_head(x1, y1, -dx, -dy) if both else "")


def _head(x: float, y: float, dx: int, dy: int) -> str:
    corners = [(x, y), (x - 10 * dx - 6 * dy, y - 10 * dy - 6 * dx), (x - 10 * dx + 6 * dy, y - 10 * dy + 6 * dx)]
    points = " ".join(f"{draw.number(a)},{draw.number(b)}" for a, b in corners)
    return f'<polygon points="{points}" fill="{draw.INK}"/>'


def mark(x: float, y: float, number: int) -> str:
    """Draw a number in a circle, which a line below the picture explains."""
    circle = f'<circle cx="{draw.number(x)}" cy="{draw.number(y)}" r="12" fill="{draw.INK}"/>'
    return circle + draw.label(x, y + 5.5, number, size=PLAIN, bold=True, fill=draw.PAPER, anchor="middle")


def gib(size: int) -> str:
    return f"{size / 2**30:.0f} GiB"
