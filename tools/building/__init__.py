"""How `make build` makes the files that it writes: one module for each kind."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # this clone's course_lib, even if another is installed


class BuildError(Exception):
    """A source that cannot be built; the message names the file and the cell."""


def relative(path: pathlib.Path) -> str:
    """Return a path as messages name it."""
    return path.relative_to(ROOT).as_posix()
