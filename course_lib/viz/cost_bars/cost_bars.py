"""A widget with the cost of each operation as a bar, by chip and dtype."""

import math

import traitlets

from course_lib import text, vocabulary
from course_lib.compiler import OpPrices
from course_lib.viz.common import draw
from course_lib.viz.common.widget import Widget, source

_TITLE = "What an operation costs"
_LEAST, _MOST = 0.2, 100.0  # cycles at the ends of the bars' log scale
_COLOURS = {"cheap": draw.GREEN, "medium": draw.ORANGE, "expensive": draw.RED, "": draw.GREY}
_ROW, _SIZE, _NAME, _SAYS, _FIGURE = 19, 13, 220, 90, 60


def cost_bars(prices: OpPrices, column: str = "f32, v5e", *, all_rows: bool = False) -> "CostBars":
    """Show the cycles of each operation on 1024 elements as bars on a log scale, the cheapest first.

    ``prices`` are those of ``compiler.op_prices()``; ``column`` is one of its columns: dtype and chip. Each row says
    how JAX's page on Pallas for TPUs classifies the operation; ``all_rows`` adds those that the page does not mention.
    Raises ValueError for an unknown column.
    """
    if column not in prices.columns:
        raise ValueError(
            f"cost_bars: column={column!r} is not a column of the prices. Choose {'; '.join(prices.columns)}."
        )
    rows = []
    for name, price in prices.rows.items():
        slots = ", ".join(f"{text.significant(n, 3)} {unit}" for unit, n in price.slots.items())
        shown = {column: _shown(cycles) for column, cycles in price.cycles.items()}
        rows.append({"name": name, "says": price.says, "cells": shown, "slots": slots})
    note = f"Cycles for 1,024 elements, {vocabulary.COMPILER}, {prices.versions}. "
    note += "Each grey line is ten times the one before."
    return CostBars(rows=rows, columns=list(prices.columns), note=note, column=column, all_rows=all_rows)


def _shown(cycles: float | None) -> dict:
    """Return a price for the browser: the sort key, the length of the bar as a share, the words."""
    if cycles is None:
        return {"cycles": 1e9, "share": 0, "words": "refused"}
    share = math.log(cycles / _LEAST) / math.log(_MOST / _LEAST)
    return {"cycles": cycles, "share": round(min(1, max(0.01, share)), 4), "words": text.significant(cycles, 3)}


class CostBars(Widget):
    """The widget. ``column``: the dtype and chip shown; ``all_rows``: also what JAX's page does not classify."""

    _esm, _css = source(__file__, "dom.js")
    rows = traitlets.List().tag(sync=True)
    columns = traitlets.List().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    lines = traitlets.List([round(math.log(n / _LEAST) / math.log(_MOST / _LEAST), 4) for n in (1, 10, 100)]).tag(
        sync=True
    )
    column = traitlets.Unicode().tag(sync=True)
    all_rows = traitlets.Bool(False).tag(sync=True)

    @property
    def shown(self) -> list[dict]:
        """The rows shown now, the cheapest first. cost_bars.js sorts them the same way."""
        rows = [row for row in self.rows if self.column in row["cells"] and (self.all_rows or row["says"])]
        return sorted(rows, key=lambda row: row["cells"][self.column]["cycles"])

    def _still(self) -> tuple[str, str]:
        return still(self), as_text(self)


def as_text(bars: CostBars) -> str:
    """Return the rows as lines of text."""
    lines = [f"{row['name']}: {row['cells'][bars.column]['words']}" for row in bars.shown]
    return "\n".join([f"{_TITLE}, {bars.column}", *lines, bars.note])


def still(bars: CostBars) -> str:
    """Draw the bars as SVG."""
    body, left = "", _NAME + _SAYS
    room = draw.INNER - left - _FIGURE
    high = _ROW * len(bars.shown)
    for share in bars.lines:
        body += draw.line(left + room * share, 0, left + room * share, high, draw.LINE)
    for n, row in enumerate(bars.shown):
        y, cell = n * _ROW, row["cells"][bars.column]
        body += draw.label(0, y + 14, row["name"], _NAME - 10, size=_SIZE)
        body += draw.label(_NAME, y + 14, row["says"], _SAYS - 8, size=_SIZE, fill=draw.MUTED)
        if cell["share"]:
            body += draw.box(left, y + 4, room * cell["share"], 12, _COLOURS[row["says"]])
        words = left + room * cell["share"] + 6
        body += draw.label(words, y + 14, cell["words"], _FIGURE, size=_SIZE, bold=True, halo=True)
    panels = [
        draw.heading(f"{_TITLE}: {bars.column}", "in words: how JAX's page classifies it"),
        draw.Panel(body, high),
    ]
    return draw.card(draw.stacked([*panels, draw.paragraph(bars.note, size=13)], gap=6), _TITLE, as_text(bars))
