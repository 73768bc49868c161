"""Which notebooks there are to grade, and what each is called in the reports."""

import os
import pathlib

from course_lib.grading.rows import clean

SUMMARY = "summary"  # the name of the class's own reports, which no notebook's may have


def find(path: pathlib.Path) -> dict[str, pathlib.Path]:
    """{name: path} of the notebooks: the file itself, or those in a folder and its folders, sorted.

    Folders whose name starts with "_" or "." are passed over. The names are printable and all
    differ, in small letters too, so that each notebook has its own reports. Raises
    FileNotFoundError, with a sentence.
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
    """A name of its own for the reports, below the folder of the reports; it is then ``taken``."""
    stem = wanted = "/".join(map(_part, file.with_suffix("").parts))
    number = 1
    while stem.casefold() in taken:
        number += 1
        stem = f"{wanted} ({number})"
    taken.add(stem.casefold())
    return stem + file.suffix


def _part(name: str) -> str:
    """A folder's or file's name, printable and on one line; what is left of it may mean another folder."""
    name = " ".join(clean(name).split())
    return "unnamed" if name in ("", ".", "..") else name
