"""How an array of full registers is summed over each of its axes: what is added whole, and what is folded."""

from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture

_WIDE, _HIGH, _STEP = 132, 44, 9  # pixels: a register as it is drawn, and how far one stands behind the other
_SUBLANES, _LANES = 8, 128
_SHOWN = 4  # registers of a stack; more are drawn as these


def sum_over_axis(leading: int = 16) -> Picture:
    """Draw the sums of an f32 array of (``leading``, 8, 128) over its first, second and last axis, one below the other.

    Raises ValueError unless ``leading`` is a whole number, 2 or more.
    """
    if type(leading) is not int or leading < 2:
        raise ValueError(f"sum_over_axis: leading={leading!r} must be a whole number, 2 or more. Try 16.")
    rows = [
        (
            "axis 0, leading",
            f"{leading} whole registers are added to one another: {leading - 1} additions",
            _stack(leading) + _arrow("+") + _moved(_register()),
        ),
        (
            "axis 1, sublanes",
            f"each of {leading} registers is folded 3 times: 8 rows to 4, to 2, to 1",
            _stack(leading, rows=_SUBLANES) + _arrow("fold") + _moved(_folds()),
        ),
        (
            "axis 2, lanes",
            f"each of {leading} registers goes through the XLU once: 128 lanes to 1",
            _stack(leading, columns=_SUBLANES * 2) + _arrow("XLU") + _moved(_register(columns=_SUBLANES * 2, kept=1)),
        ),
    ]
    panels = []
    for name, says, body in rows:
        panels += [draw.heading(name, says), draw.Panel(body, _HIGH + _STEP * (_SHOWN - 1) + 14)]
    words = f"({leading}, {_SUBLANES}, {_LANES}) summed over each axis:\n" + "\n".join(
        f"  over {name}: {says}" for name, says, _ in rows
    )
    return Picture(svg=draw.card(draw.stacked(panels, gap=4), "Sums, axis by axis", words), text=words)


def _register(
    left: float = 0, top: float = 0, *, rows: int = 1, columns: int = 1, kept: int = 0, wide: float = _WIDE
) -> str:
    """Draw a register in so many rows and columns; the first ``kept`` of them are in colour, all if it is 0."""
    body = draw.box(left, top, wide, _HIGH, draw.TRACK if kept else draw.SKY, stroke=draw.INK)
    if kept:
        width, height = (wide * kept / columns, _HIGH) if columns > 1 else (wide, _HIGH * kept / rows)
        body += draw.box(left, top, width, height, draw.SKY, stroke=draw.INK)
    for row in range(1, rows):
        body += draw.line(left, top + _HIGH * row / rows, left + wide, top + _HIGH * row / rows, draw.MUTED)
    for column in range(1, columns):
        across = left + wide * column / columns
        body += draw.line(across, top, across, top + _HIGH, draw.MUTED)
    return body


def _stack(count: int, **lines: int) -> str:
    shown = min(count, _SHOWN)
    body = "".join(_register(_STEP * n, _STEP * (shown - 1 - n)) for n in range(shown - 1, 0, -1))
    body += _register(0, _STEP * (shown - 1), **lines)
    return body + draw.label(_WIDE + _STEP * shown + 4, _HIGH, f"x {count}", 60, size=14, bold=True)


def _arrow(says: str) -> str:
    left, middle = _WIDE + 96, _HIGH / 2 + _STEP * (_SHOWN - 1)
    tip = f'<path d="M{left + 60} {middle - 5} l9 5 l-9 5 z" fill="{draw.INK}"/>'
    return (
        draw.line(left, middle, left + 62, middle, draw.INK, width=2)
        + tip
        + draw.label(left + 30, middle - 8, says, 70, size=13, anchor="middle")
    )


def _moved(body: str) -> str:
    return draw.moved(draw.Panel(body, _HIGH), _WIDE + 186, _STEP * (_SHOWN - 1))


def _folds() -> str:
    """Draw one register three times, with half of the rows kept each time."""
    return "".join(_register(104 * n, rows=_SUBLANES, kept=kept, wide=92) for n, kept in enumerate((4, 2, 1)))
