"""IPython's commands in a box: what times or hides a cell runs it, and the others do nothing.

Nothing that they would show is looked at here, and there is no shell and no network for ``!pip install``.
"""

from __future__ import annotations

from collections.abc import Callable

_RUNS = ("time", "capture", "prun")  # %%time: the cell below is run, and its names stay
_STATEMENTS = ("time", "prun")  # %time x = f(): the rest of the line is a statement


class Magics:
    """What ``get_ipython()`` returns: ``run(source)`` runs Python among the cell's names."""

    def __init__(self, run: Callable[[str], object]):
        self._run = run

    def __call__(self) -> Magics:
        return self

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        """Run the cell below a magic; raise ValueError if the magic would define nothing either."""
        if name not in _RUNS:
            raise ValueError(f"%%{name:.30} defines nothing for the check. Take that line out of the answer.")
        self._run(cell)

    def run_line_magic(self, name: str, line: str, *more: object) -> None:
        """Run the statement behind a magic that times it; ignore any other."""
        if name in _STATEMENTS and line.strip():
            self._run(line.strip())

    def system(self, command: str) -> None:
        """Run nothing: there is no shell."""

    def getoutput(self, command: str, *more: object) -> list[str]:
        """Return no output: there is no shell."""
        return []
