"""What the simulator said while a notebook was executed: it comes with the course (compiler.child.shipped)."""

import copy
import json

import nbformat

_ID = "cycles-of-parts"
# Nothing is imported for it: a notebook that asked no compiler has nothing to say.
_ANNOUNCE = 'import sys\nif (shipped := sys.modules.get("course_lib.compiler.child.shipped")):\n    shipped.announce()'


def with_cycles(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A copy with a cell at its end that prints them."""
    telling = copy.deepcopy(notebook)
    telling.cells.append(nbformat.v4.new_code_cell(_ANNOUNCE, id=_ID))
    return telling


def without_cycles(executed: nbformat.NotebookNode) -> tuple[nbformat.NotebookNode, str]:
    """The executed notebook without that cell, and the text of its file: a line for each part; "" for none."""
    *executed.cells, last = executed.cells
    found = json.loads("".join(output.get("text", "") for output in last.outputs) or "{}")
    lines = [f" {json.dumps(key)}: {json.dumps(found[key], sort_keys=True)}" for key in sorted(found)]
    return executed, "{\n" + ",\n".join(lines) + "\n}\n" if lines else ""
