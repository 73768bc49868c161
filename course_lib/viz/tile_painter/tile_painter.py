"""A widget with an array in its vector registers: type a shape, and see which places stay empty."""

from collections.abc import Sequence

import traitlets

from course_lib import text
from course_lib.viz.common import draw
from course_lib.viz.common.widget import Widget, source
from course_lib.viz.tile_painter import tile_plan

_TITLE = "An array in vector registers"
_WIDE, _HIGH, _GAP, _IN_A_ROW = 104, 56, 10, 6  # pixels of a register and of gaps; registers per row


def tile_painter(shape: Sequence[int] = (20, 200), dtype: str = "float32") -> "TilePainter":
    """Draw the vector registers that an array occupies, and say how much of them is empty.

    ``shape``: two to five sizes; ``dtype``: "float32", "bfloat16" or "int8". Both can be changed in the browser, which
    counts again. Raises ValueError for any other dtype or shape.
    """
    if dtype not in tile_plan.DTYPES:
        raise ValueError(f"tile_painter: dtype={dtype!r} is not known. Choose one of {', '.join(tile_plan.DTYPES)}.")
    sizes = list(shape)
    if not 2 <= len(sizes) <= 5 or not all(type(n) is int and 1 <= n <= tile_plan.MOST for n in sizes):
        raise ValueError(
            f"tile_painter: shape={shape!r} is not a shape to paint. Give two to five whole numbers from 1 to "
            f"{tile_plan.MOST:,}, as in (20, 200)."
        )
    return TilePainter(shape=sizes, dtype=dtype)


class TilePainter(Widget):
    """The widget. It shows an array of ``shape`` and ``dtype``."""

    _esm, _css = source(__file__, "dom.js", "units.js")
    shape = traitlets.List().tag(sync=True)
    dtype = traitlets.Unicode("float32").tag(sync=True)

    def _still(self) -> tuple[str, str]:
        return still(self.shape, self.dtype), tile_plan.sentence(self.shape, self.dtype)


def still(shape: Sequence[int], dtype: str) -> str:
    """Draw the registers as a card."""
    found, said = tile_plan.plan(shape, dtype), tile_plan.sentence(shape, dtype)
    body = ""
    for number, tiles in enumerate(found.drawn):
        x = number % _IN_A_ROW * (_WIDE + _GAP)
        body += _register(x, number // _IN_A_ROW * (_HIGH + _GAP), tiles, found)
    rows = -(-len(found.drawn) // _IN_A_ROW)
    panels = [
        draw.heading(_TITLE, "blue: elements of the array, grey: empty"),
        draw.Panel(body, rows * (_HIGH + _GAP)),
        *([draw.paragraph(f"and {more}", size=13, fill=draw.MUTED)] if (more := more_words(found)) else []),
        draw.paragraph(said, size=13),
    ]
    return draw.card(draw.stacked(panels, gap=6), _TITLE, said)


def more_words(found: tile_plan.Plan) -> str:
    """Say how many registers are not drawn; "" if all are."""
    more = found.registers - len(found.drawn)
    return f"{text.count(more)} more" if more else ""


def _register(x: float, y: float, tiles: Sequence[tile_plan.Tile], found: tile_plan.Plan) -> str:
    """Draw a register, 8 sublanes by 128 lanes, with its tiles one below the other."""
    body = draw.box(x, y, _WIDE, _HIGH, draw.TRACK)
    tall = _HIGH / found.room
    for place, tile in enumerate(tiles):
        wide = max(1.5, _WIDE * tile.lanes / tile_plan.LANES)
        body += draw.box(x, y + place * tall, wide, max(1.5, tall * tile.rows / found.tile_rows), draw.BLUE)
    for line in range(1, found.room):
        body += draw.line(x, y + line * tall, x + _WIDE, y + line * tall, draw.PAPER)
    edge = f'<rect x="{draw.number(x)}" y="{draw.number(y)}" width="{_WIDE}" height="{_HIGH}" fill="none"'
    return body + f'{edge} stroke="{draw.MUTED}"/>'
