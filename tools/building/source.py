"""A percent source as a notebook: stable cell ids, the common first cell, the exercise marks.

A cell header says answer="01.2", given="01.2" or check="01.2" for the three kinds of exercise cells.
"""

import hashlib
import json
import pathlib
import re

import jupytext
import nbformat

from building import ROOT, BuildError, links, relative
from building.answers import check_regions
from building.lessons import address, badge, table
from course_lib.checks.exercise import exercise

FIRST_CELL = "# FIRST CELL"
LESSONS = "<!-- lessons -->"  # replaced by the table of lessons
FOLDED, PREDICT = "folded", "predict"  # tags: the source is folded; the output is, until the reader opens or runs it
COMPARED = "nbval-check-output"  # nbval's tag: a pass prints one line, the same everywhere, and nbval compares it
KEPT_METADATA = {"tags", "nbgrader", "deletable", "editable"}


def read_source(source: pathlib.Path) -> nbformat.NotebookNode:
    """Return the notebook of a percent source: stable cell ids, the common first cell, no stray metadata."""
    notebook = jupytext.read(source)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    public = address()
    seen = set()
    for number, cell in enumerate(notebook.cells):
        cell.source = cell.source.strip("\n")  # ruff puts empty lines before a decorator
        if cell.source == FIRST_CELL:
            cell.source = first_cell(public)
            name = "first-cell"
        else:
            name = hashlib.sha1(f"{number}:{cell.source}".encode()).hexdigest()[:8]
            _expand_exercise(cell)
            name = cell.metadata.get("nbgrader", {}).get("grade_id", name)
            if links.NEXT in cell.source:
                cell.source = cell.source.replace(links.NEXT, links.way_on(source))
            if LESSONS in cell.source:
                cell.source = cell.source.replace(LESSONS, table(ROOT / "notebooks", but=source.name))
        if name in seen:
            raise BuildError(f"{relative(source)}: two cells are called {name}.")
        seen.add(name)
        cell["id"] = name
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k in KEPT_METADATA})
        tags = cell.metadata.get("tags", ())
        if name == "first-cell" or FOLDED in tags:  # readers run it, but few read it
            cell.metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form"}
        if PREDICT in tags:  # the answer, which a reader should not see before they have predicted it
            cell.metadata["jupyter"] = cell.metadata.get("jupyter", {}) | {"outputs_hidden": True}
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    if source.parent.parent.name == "notebooks":
        texts = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
        for cell, text in zip(texts, links.to_glossary([cell.source for cell in texts], source), strict=True):
            cell.source = text
    if public["repo"]:
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(badge(public, source), id="colab-badge"))
    check_regions(notebook, source)
    return notebook


def _expand_exercise(cell: nbformat.NotebookNode) -> None:
    """Turn answer="01.2", given="01.2" and check="01.2" in a cell's header into nbgrader's metadata."""
    for kind, suffix in (("answer", ""), ("given", "-given"), ("check", "-check")):
        if id := cell.metadata.pop(kind, None):
            is_check = kind == "check"
            cell.metadata["nbgrader"] = {
                "grade": is_check,
                "grade_id": id.replace(".", "-") + suffix,
                "locked": kind != "answer",
                "schema_version": 3,
                "solution": kind == "answer",
            }
            if is_check:
                cell.metadata["nbgrader"]["points"] = exercise(id).points
                cell.metadata["tags"] = [*cell.metadata.get("tags", ()), COMPARED]


def first_cell(public: dict) -> str:
    """Return the cell that starts every notebook, with the versions of requirements.txt and the public address."""
    text = (ROOT / "notebooks/src/first_cell.py").read_text().rstrip("\n")
    # With their markers, because there is no libtpu for a Mac, for example.
    pins = re.findall(
        r"^((?:jax|jaxlib|libtpu)==.+?)\s*$", (ROOT / "requirements.txt").read_text().replace('"', "'"), re.M
    )
    source = f"git+https://github.com/{public['repo']}@{public['tag']}" if public["repo"] else ""
    places = {
        '"COURSE_SOURCE", ""': f'"COURSE_SOURCE", "{source}"',
        "PINS = []": f"PINS = {json.dumps(pins, indent=4)}",
    }
    for place, value in places.items():
        assert text.count(place) == 1, f"first_cell.py has no place for {place}"
        text = text.replace(place, value)
    return text


def dump(notebook: nbformat.NotebookNode) -> str:
    nbformat.validate(notebook)
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"
