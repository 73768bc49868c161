"""The scores of our own answers to golf exercises, computed while their notebook is executed and never typed."""

import copy
import re

import nbformat

from building import ROOT, BuildError

_CHECK = re.compile(r'^checks\.check\("(\d\d\.\d+)", (\w+)\)$', re.M)
_ANNOUNCE = "from course_lib.checks.kinds import golf\ngolf.announce({id!r}, {answer})"


def with_scores(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a copy with a cell after the check of each golf exercise that prints the score."""
    counting, cells = copy.deepcopy(notebook), []
    for cell in counting.cells:
        cells.append(cell)
        check = _CHECK.search(cell.source) if cell.cell_type == "code" else None
        if check and _is_golf(check[1]):
            source = _ANNOUNCE.format(id=check[1], answer=check[2])
            cells.append(nbformat.v4.new_code_cell(source, id=_name(check[1])))
    counting.cells = cells
    return counting


def without_scores(executed: nbformat.NotebookNode) -> tuple[nbformat.NotebookNode, dict[str, int]]:
    """Return the executed notebook without those cells, and {id: score} as they printed. Raise BuildError for none."""
    scores, cells = {}, []
    for cell in executed.cells:
        if not cell.id.endswith("-score"):
            if cell.cell_type == "code" and cell.execution_count is not None:
                cell.execution_count -= len(scores)  # as if those cells had not run
            cells.append(cell)
            continue
        id = cell.id.removesuffix("-score").replace("-", ".")
        printed = "".join(output.get("text", "") for output in cell.outputs)
        if not (said := re.search(rf"^{re.escape(id)} score: (\d+)$", printed, re.M)):
            raise BuildError(f"{id}: our own answer has no score. {printed.strip()}")
        scores[id] = int(said[1])
    executed.cells = cells
    return executed, scores


def _is_golf(id: str) -> bool:
    """Whether the declaration has a score; it is read as text, because importing it would import JAX."""
    lesson, number = id.split(".")
    files = (ROOT / f"course_lib/lessons/lesson_{lesson}").glob(f"e{int(number):02}_*.py")
    return any(re.search(r'kind="(golf|project)"', file.read_text()) for file in files)


def _name(id: str) -> str:
    return f"{id.replace('.', '-')}-score"
