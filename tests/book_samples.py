"""A small book for the tests: a lesson made up here, with two widgets, among a few pages of the course."""

import base64
import sys

import nbformat
from ipywidgets.widgets.widget import _remove_buffers
from lesson_files import ROOT
from viz_widgets import a_player

sys.path.insert(0, str(ROOT / "tools"))

from book import pages, site
from building import run, widget_state

from course_lib import viz

LESSON, EXERCISES = "notebooks/01_hello_kernel.ipynb", "exercises/01_hello_kernel.ipynb"
SOURCES = (pages.FRONT, LESSON, EXERCISES, pages.INDEX, "docs/glossary.md", "docs/zoo.md")
TEXT = """# A sample

> **[lane](../docs/glossary.md)**: see [the zoo](../docs/zoo.md#totals) and
> [the kernel](../course_lib/kernels/norm/kernel.py).

## A part of it

$$\\frac{2 N^3\\ \\text{FLOPs}}{6 N^2} > x_i$$

<details><summary>Answer</summary>It was folded.</details>

## Another part

| a | b |
|---|---|
| `x < y` | 2 |
"""


def widgets() -> list:
    """Two widgets: one with binary values, and one without."""
    return [a_player(), viz.memory_ladder()]


def shown(widget) -> tuple[nbformat.NotebookNode, dict]:
    """A widget as the output that a notebook stores, and its state as a build keeps it."""
    values, paths, buffers = _remove_buffers(widget.get_state())
    coded = [{"path": p, "data": base64.b64encode(b).decode()} for p, b in zip(paths, buffers, strict=True)]
    data, _ = widget._repr_mimebundle_()
    data.pop(widget_state.VIEW)
    run._show_still(data)
    return nbformat.v4.new_output("execute_result", data), widget_state.of_model(values, coded)


def lesson() -> tuple[nbformat.NotebookNode, list[dict | None]]:
    """A notebook with a text, code that is folded, an output to predict, and two widgets; and their states."""
    (first, one), (second, two) = [shown(widget) for widget in widgets()]
    printed = nbformat.v4.new_output("stream", text="1 < 2 & so on\n")
    answer = nbformat.v4.new_output("stream", text="the answer\n")
    hidden = {"jupyter": {"source_hidden": True}}
    cells = [
        nbformat.v4.new_markdown_cell(TEXT, id="text"),
        nbformat.v4.new_code_cell("# @title Run me first.\nx = 1", id="first-cell", metadata=hidden, outputs=[printed]),
        nbformat.v4.new_code_cell("x", id="q", metadata={"jupyter": {"outputs_hidden": True}}, outputs=[answer]),
        nbformat.v4.new_code_cell("viz.grid_player(fn, x)", id="one", outputs=[first]),
        nbformat.v4.new_code_cell("viz.memory_ladder()", id="two", outputs=[second]),
    ]
    return nbformat.v4.new_notebook(cells=cells), [one, two]


def gallery(made: dict) -> tuple[nbformat.NotebookNode, list[dict]]:
    """A notebook with a cell for each widget of {name: widget}; and their states."""
    outputs, states = zip(*(shown(widget) for widget in made.values()), strict=True)
    cells = [
        nbformat.v4.new_code_cell(name, id=name, outputs=[output]) for name, output in zip(made, outputs, strict=True)
    ]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A gallery", id="text"), *cells]), [*states]


def book(states=True) -> tuple[site.Files, set[str]]:
    """The files of the small book, with the states of its widgets or with none."""
    notebook, state = lesson()
    return site.files(course(notebook), {LESSON: state} if states else {})


def course(notebook: nbformat.NotebookNode) -> dict[str, pages.Page]:
    """A few pages of the course, and ``notebook`` in place of lesson 1."""
    whole = pages.course() | {LESSON: pages.Page(LESSON, "A sample", notebook=notebook)}
    return {source: whole[source] for source in SOURCES}
