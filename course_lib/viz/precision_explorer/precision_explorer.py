"""A widget with the error of a matmul, by precision and length of the sums, beside its cost."""

from collections.abc import Mapping

import traitlets

from course_lib import text, vocabulary
from course_lib.viz.common import draw
from course_lib.viz.common.widget import Widget, source
from course_lib.viz.precision_explorer import precision_data, precision_plot
from course_lib.viz.precision_explorer.precision_data import Curves

_TITLE = "Error and cost of a matmul"
_BROAD, _NARROW = draw.INNER, 430  # pixels: width of the plot
_ROW = 26


def precision_explorer(
    errors: Mapping[str, Mapping[int, float]], cycles: Mapping[str, float] | None = None
) -> "PrecisionExplorer":
    """Plot relative errors against K on log axes; a cursor shows each error at its K, the correct digits, and the cost.

    ``errors``: curve -> {K: relative error, above 0}, up to 6 curves, each at its own K; ``cycles``: curve -> cycles of
    one matmul, *predicted (compiler)*, for some curves or none. The number of correct digits is minus the decimal
    logarithm of the error. Curves can be switched off. The figures are the caller's; nothing is computed here. Raises
    ValueError for anything else.
    """
    return PrecisionExplorer(precision_data.checked(errors, cycles))


class PrecisionExplorer(Widget):
    """The widget. ``cursor``: the number of a K, from 0; ``hidden``: the numbers of curves that are switched off."""

    _esm, _css = source(__file__, "dom.js")
    title = traitlets.Unicode(_TITLE).tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)
    drawings = traitlets.List().tag(sync=True)  # for a wide and a narrow page: SVG, and the x of each K
    sizes = traitlets.List().tag(sync=True)
    curves = traitlets.List().tag(sync=True)
    cursor = traitlets.Int(0).tag(sync=True)
    hidden = traitlets.List().tag(sync=True)

    def __init__(self, given: Curves, **traits):
        self.given = given
        most = max(given.cycles.values(), default=0)
        drawings = []
        for width in (_BROAD, _NARROW):
            panel, places = precision_plot.plot(given, width)
            drawings.append({"svg": draw.sheet(panel, _TITLE, "error against K", width), "x": places, "width": width})
        sizes = given.sizes
        rows = [_row(given, number, most) for number in range(len(given.errors))]
        note = _cost_words() if given.cycles else ""
        traits = {"cursor": len(sizes) - 1} | traits
        super().__init__(drawings=drawings, sizes=[f"{k:,}" for k in sizes], curves=rows, note=note, **traits)

    def _still(self) -> tuple[str, str]:
        sizes = self.given.sizes
        k = sizes[max(0, min(self.cursor, len(sizes) - 1))]
        return still(self.given, k), precision_data.sentence(self.given, k)


def _cost_words() -> str:
    return f"Cycles: of one matmul, {vocabulary.COMPILER}."


def _row(given: Curves, number: int, most: int) -> dict:
    """Return one curve for the browser: its words at every K, and its cost as a share of the highest."""
    name, curve = list(given.errors.items())[number]
    cycles = given.cycles.get(name)
    return {
        "name": name,
        "swatch": draw.sheet(draw.Panel(precision_plot.swatch(number), 16), name, "its colour and mark", 34),
        "errors": [precision_data.error_words(curve.get(k)) for k in given.sizes],
        "digits": [precision_data.digits_words(curve.get(k)) for k in given.sizes],
        "cycles": text.count(cycles) if cycles else "",
        "share": cycles / most if cycles else 0,
    }


def still(given: Curves, k: int) -> str:
    """Draw the plot with its cursor at K, and below it each curve's figures there."""
    panel, _ = precision_plot.plot(given, _BROAD, k)
    most = max(given.cycles.values(), default=0)
    head = draw.label(40, 13, f"at K = {k:,}", 190, size=precision_plot.SIZE, bold=True)
    head += draw.label(300, 13, "error", 80, size=precision_plot.SIZE, fill=draw.MUTED, anchor="end")
    head += draw.label(400, 13, "correct", 90, size=precision_plot.SIZE, fill=draw.MUTED, anchor="end")
    if most:
        cost = f"cycles, {vocabulary.COMPILER}"
        head += draw.label(420, 13, cost, draw.INNER - 420, size=precision_plot.SIZE, fill=draw.MUTED)
    rows = [_still_row(given, number, k, most) for number in range(len(given.errors))]
    whole = draw.stacked([draw.heading(_TITLE), panel, draw.stacked([draw.Panel(head, 24), *rows])], gap=8)
    return draw.card(whole, _TITLE, precision_data.sentence(given, k))


def _still_row(given: Curves, number: int, k: int, most: int) -> draw.Panel:
    name, curve = list(given.errors.items())[number]
    error, cycles, size = curve.get(k), given.cycles.get(name), precision_plot.SIZE
    body = precision_plot.swatch(number) + draw.label(40, 13, name, 185, size=size)
    body += draw.label(300, 13, precision_data.error_words(error), 75, size=size, bold=True, anchor="end")
    body += draw.label(400, 13, precision_data.digits_words(error), 90, size=size, anchor="end")
    if cycles:
        room = draw.INNER - 420 - 90
        body += draw.box(420, 2, max(2, room * cycles / most), 12, draw.GREY)
        body += draw.label(draw.INNER, 13, text.count(cycles), 84, size=size, anchor="end")
    return draw.Panel(body, _ROW)
