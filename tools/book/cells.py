"""The cells of a notebook as HTML: text, code, and what the code printed and drew."""

import re
from collections.abc import Iterator
from html import escape, unescape

import nbformat
from building.widget_state import SVG
from markupsafe import Markup

from book import widgets
from book.code import code
from book.text import Writer
from course_lib.viz.common import draw

_BADGE = "colab-badge"  # a cell with a picture from the network; the page's head has the same link
_HREF = re.compile(r'\bhref="([^"]*)"')
_THEMED = f"<style>{draw.DARK}</style>"  # book.css has the rule once


def cells(notebook: nbformat.NotebookNode, writer: Writer, states: list[dict | None] | None) -> Iterator[Markup]:
    """Yield each cell as HTML. ``states`` has the widget behind each picture; with None all stay still images."""
    pictures = iter(states) if states is not None else None
    for cell in notebook.cells:
        if cell.id == _BADGE:
            continue
        if cell.cell_type == "markdown":
            yield Markup(f'<div class="text">{writer.html(cell.source)}</div>')
        elif cell.source:
            shown = "".join(output_of(output, pictures, writer) for output in cell.outputs)
            yield Markup(f'<div class="cell">{_folded(cell, shown)}</div>')


def _folded(cell: nbformat.NotebookNode, shown: str) -> str:
    """Return the code of a cell and what it shows, each in a fold if the notebook folds it."""
    folds, source = cell.metadata.get("jupyter", {}), code(cell.source)
    if folds.get("source_hidden"):
        title = cell.source.partition("\n")[0].removeprefix("# @title").strip("# ") or "Code"
        source = f'<details class="fold"><summary>{escape(title)}</summary>{source}</details>'
    if shown and folds.get("outputs_hidden"):
        says = "Write down your prediction, then open the output."
        shown = f'<details class="fold predicted"><summary>{says}</summary>{shown}</details>'
    return source + shown


def output_of(output: nbformat.NotebookNode, pictures: Iterator[dict | None] | None, writer: Writer) -> str:
    """Return an output as HTML; ``pictures`` are the widgets behind the pictures, from this one on."""
    if output.output_type == "stream":
        return _printed(output.text)
    data = output.data
    widget = next(pictures) if pictures is not None and SVG in data else None
    if widget is not None:
        return widgets.place(widget, _drawn(data["text/html"], writer))
    if "text/html" in data:
        return f'<div class="output">{_drawn(data["text/html"], writer)}</div>'
    if "image/png" in data:
        alternative = escape(data.get("text/plain", "a picture"))
        return f'<div class="output"><img src="data:image/png;base64,{data["image/png"]}" alt="{alternative}"></div>'
    return _printed(data["text/plain"])


def _drawn(html: str, writer: Writer) -> str:
    """Return the HTML of an output, a picture or the map of the course for example, with links into the book."""

    def lead(link: re.Match) -> str:
        target = writer.links.target(writer.page, unescape(link[1]))
        return f'href="{escape(target)}"' if target else ""

    return _HREF.sub(lead, html.replace(_THEMED, ""))


def _printed(text: str) -> str:
    return f'<pre class="output"><samp>{escape(text.rstrip("\n"), quote=False)}</samp></pre>'
