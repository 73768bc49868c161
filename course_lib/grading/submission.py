"""A submitted notebook read as data: the source of its code cells by name. Nothing in it is run."""

import json
import os
import pathlib
import stat

MAX_BYTES = 5 << 20
UNMARKED = ""  # the shared name of all cells without one
NOT_CODE = "(not code)"  # a name beside those of the cells: its sources are "type name" of the cells of other types


class Unreadable(Exception):
    """The file cannot be graded; the message says why, in one line."""


def read(path: pathlib.Path) -> dict[str, list[str]]:
    """Return {name: sources} of the code cells of a notebook, in its order.

    The name is nbgrader's grade_id ("01-1", "01-1-check"), or else the cell's id; cells that have neither share the
    name UNMARKED. A name has several sources if a cell was split or copied. Named cells of other types are listed under
    NOT_CODE. Raises Unreadable.
    """
    notebook = _parse(_bytes(path))
    if not isinstance(notebook, dict) or not isinstance(notebook.get("nbformat"), int):
        raise Unreadable("it is JSON, but not a notebook.")
    if notebook["nbformat"] != 4:
        raise Unreadable(f"it is of nbformat {notebook['nbformat']}, not 4; open it in JupyterLab and save it.")
    if not isinstance(notebook.get("cells"), list):
        raise Unreadable("it has no list of cells.")
    found: dict[str, list[str]] = {}
    for cell in notebook["cells"]:
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = _source(cell.get("source"))
            if source is not None:
                found.setdefault(_name(cell), []).append(source)
        elif isinstance(cell, dict) and isinstance(cell.get("cell_type"), str) and _name(cell):
            found.setdefault(NOT_CODE, []).append(f"{cell['cell_type'][:20]} {_name(cell)}")
    return found


def _bytes(path: pathlib.Path) -> bytes:
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            raise Unreadable("it is a symbolic link; hand in the file itself.")
        if stat.S_ISDIR(status.st_mode):
            raise Unreadable("it is a folder that cannot be read.")
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("it is not a regular file.")
        if status.st_size > MAX_BYTES:
            size = f"{status.st_size / 2**20:.1f} MiB, more than {MAX_BYTES >> 20} MiB"
            raise Unreadable(f"it has {size}; clear its outputs and save it.")
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}.") from None


def _parse(data: bytes):
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable("it is not UTF-8 text.") from None
    except RecursionError:
        raise Unreadable("its JSON is nested too deeply.") from None
    except ValueError as error:
        raise Unreadable(f"it is not JSON: {error}.") from None


def _name(cell: dict) -> str:
    metadata = cell.get("metadata")
    mark = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    names = (mark.get("grade_id") if isinstance(mark, dict) else None, cell.get("id"))
    return next((name for name in names if isinstance(name, str)), UNMARKED)


def _source(source) -> str | None:
    """Return the text of a cell (a string, or a list of strings); None if it is neither."""
    lines = [source] if isinstance(source, str) else source
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        return None
    return "".join(lines).encode("utf-8", "replace").decode()  # JSON may hold half a surrogate pair
