"""The separation of our answers from what learners get: the lines between the marks BEGIN and END."""

import copy
import pathlib
import re

import nbformat

from building import BuildError, relative

_BEGIN = re.compile(r"^\s*### BEGIN (SOLUTION|HIDDEN TESTS)\s*$")
_END = re.compile(r"^\s*### END (SOLUTION|HIDDEN TESTS)\s*$")


def without_answers(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a copy without the lines between BEGIN and END, marks included, so that solving only ever adds lines."""
    stripped = copy.deepcopy(notebook)
    for cell in stripped.cells:
        cell.source = "\n".join(_outside_regions(cell.source)).rstrip()
        if "nbgrader" in cell.metadata:
            cell.metadata["deletable"] = False
            if not cell.metadata["nbgrader"]["solution"]:
                cell.metadata["editable"] = False
    return stripped


def answers_of(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """Return our answers by exercise id ("01.2" from the cell "01-2"), without the marks."""
    return {
        cell.metadata["nbgrader"]["grade_id"].replace("-", "."): "\n".join(
            line for line in cell.source.split("\n") if not (_BEGIN.match(line) or _END.match(line))
        )
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def check_regions(notebook: nbformat.NotebookNode, source: pathlib.Path) -> None:
    for cell in notebook.cells:
        begins = sum(bool(_BEGIN.match(line)) for line in cell.source.split("\n"))
        ends = sum(bool(_END.match(line)) for line in cell.source.split("\n"))
        where = f"{relative(source)}, cell {cell.id}"
        if begins != ends:
            raise BuildError(f"{where}: {begins} BEGIN marks, {ends} END marks.")
        if "### BEGIN SOLUTION" in cell.source and not cell.metadata.get("nbgrader", {}).get("solution"):
            raise BuildError(f"{where}: a solution outside a solution cell would be lost in grading.")


def _outside_regions(text: str) -> list[str]:
    kept, inside = [], False
    for line in text.split("\n"):
        if _BEGIN.match(line):
            inside = True
        elif _END.match(line):
            inside = False
        elif not inside:
            kept.append(line)
    return kept
