"""The simulator's results from the execution of a notebook, which ship with the course (compiler.child.shipped)."""

import copy
import json

import nbformat

_ID = "cycles-of-parts"
# It imports nothing: a notebook that never asked the compiler has no results.
_ANNOUNCE = 'import sys\nif (shipped := sys.modules.get("course_lib.compiler.child.shipped")):\n    shipped.announce()'


def with_cycles(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a copy with a cell at its end that prints the results."""
    telling = copy.deepcopy(notebook)
    telling.cells.append(nbformat.v4.new_code_cell(_ANNOUNCE, id=_ID))
    return telling


def without_cycles(executed: nbformat.NotebookNode) -> tuple[nbformat.NotebookNode, str]:
    """Return the executed notebook without that cell, and the text of its file: a line per part, or "" for none."""
    *executed.cells, last = executed.cells
    found = json.loads("".join(output.get("text", "") for output in last.outputs) or "{}")
    lines = [f" {json.dumps(key)}: {json.dumps(found[key], sort_keys=True)}" for key in sorted(found)]
    return executed, "{\n" + ",\n".join(lines) + "\n}\n" if lines else ""
