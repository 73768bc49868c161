"""The notebooks to grade, and the name of each in the reports."""

import os
import pathlib

from course_lib.grading.rows import clean

SUMMARY = "summary"  # the name of the class's own reports, which no notebook's may have


def find(path: pathlib.Path) -> dict[str, pathlib.Path]:
    """Return {name: path} of the notebooks: the file itself, or all in a folder and its subfolders, sorted.

    Folders whose name starts with "_" or "." are skipped. The names are printable and differ even in lower case, so
    that each notebook has its own reports. Raises FileNotFoundError, with a sentence.
    """
    if not path.is_dir():
        if not os.path.lexists(path):
            raise FileNotFoundError(f"{path} does not exist.")
        return {_name(pathlib.PurePath(path.name), taken=set()): path}
    files = []
    for folder, folders, names in path.walk():
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        files += [folder / name for name in names if name.endswith(".ipynb")]
    if not files:
        raise FileNotFoundError(f"there is no notebook (.ipynb) in {path}.")
    taken = {SUMMARY}
    return {_name(file.relative_to(path), taken): file for file in sorted(files)}


def _name(file: pathlib.PurePath, taken: set[str]) -> str:
    """Return a unique name for the reports, below the reports' folder, and add it to ``taken``."""
    stem = wanted = "/".join(map(_part, file.with_suffix("").parts))
    number = 1
    while stem.casefold() in taken:
        number += 1
        stem = f"{wanted} ({number})"
    taken.add(stem.casefold())
    return stem + file.suffix


def _part(name: str) -> str:
    """Return the name of a folder or file, printable and on one line; "unnamed" if it would mean another folder."""
    name = " ".join(clean(name).split())
    return "unnamed" if name in ("", ".", "..") else name
