"""Matplotlib figures in the style of the course's other pictures.

    plt.rcParams.update(viz.PLOT_STYLE)
    fig, axes = plt.subplots()
    axes.loglog(batches, seconds)
    viz.plot_picture(fig, "Time against batch: flat, then rising.")

Everything between the first line and the last is plain matplotlib. This module imports it only when it makes a picture.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from course_lib.viz.common import draw
from course_lib.viz.common.picture import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 96  # CSS pixels per inch
_POINT = _DPI / 72  # pixels per point, the unit of font sizes and line widths

PLOT_STYLE = {
    "figure.figsize": (draw.INNER / _DPI, 330 / _DPI),
    "figure.dpi": _DPI,
    "figure.facecolor": draw.PAPER,
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib, so widths are the same everywhere
    "font.size": 12 / _POINT,
    "text.color": draw.INK,
    "axes.facecolor": draw.PAPER,
    "axes.edgecolor": draw.LINE,
    "axes.labelcolor": draw.MUTED,
    "axes.titlesize": 13 / _POINT,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": f"cycler('color', {[draw.BLUE, draw.ORANGE, draw.GREEN, draw.RED, draw.PURPLE, draw.SKY]})",
    "grid.color": draw.TRACK,
    "xtick.color": draw.MUTED,
    "ytick.color": draw.MUTED,
    "lines.linewidth": 2 / _POINT,
    "lines.markersize": 8 / _POINT,
    "legend.frameon": False,
}
# So that every process writes the same bytes: a fixed salt names the clip paths, and text stays text.
_STABLE = {"svg.hashsalt": "course", "svg.fonttype": "none", "svg.image_inline": True}
_NOT_SAID = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def plot_picture(fig: Figure, says: str) -> Picture:
    """Put a matplotlib figure on a white card, as SVG; ``says`` describes it in a sentence for those who cannot see it.

    Closes the figure, so that a notebook does not show it twice. The same figure gives the same bytes in every process.
    Raises ValueError if ``says`` is empty.
    """
    if not says.strip():
        raise ValueError(
            "plot_picture: says is empty. Describe in a sentence what the plot shows: the text stands in for it."
        )
    import matplotlib
    import matplotlib.pyplot as plt

    out = io.StringIO()
    with matplotlib.rc_context(_STABLE):
        fig.savefig(out, format="svg", metadata=_NOT_SAID)
    plt.close(fig)
    width, height = (side * _DPI for side in fig.get_size_inches())
    shrunk = min(1, draw.INNER / width)
    title = next((axes.get_title(loc=place) for axes in fig.axes for place in ("left", "center")), "") or "A plot"
    panel = draw.Panel(_inner(out.getvalue(), width * shrunk, height * shrunk), height * shrunk)
    return Picture(svg=draw.card(panel, title, says), text=says)


def _inner(svg: str, width: float, height: float) -> str:
    """Turn the figure into part of a larger picture, with the given size in pixels and the fonts of the others."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    size = f'width="{draw.number(width)}" height="{draw.number(height)}"'
    body = re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', size, body, count=1)
    return body.replace("'DejaVu Sans', sans-serif", draw.SANS).strip()
