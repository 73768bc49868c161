"""The notebooks to grade, and the name of each in the reports."""

from __future__ import annotations

import os
import pathlib
import re
import unicodedata

from course_lib.grading.rows import clean

SUMMARY = "summary"
# The class's own reports, by what is in them.
CLASS_FILES = {
    "summary": f"{SUMMARY}.csv",
    "exercises": "exercises.csv",
    "canvas": "canvas.csv",
    "moodle": "moodle.csv",
    "alike": "alike.csv",
    "page": f"{SUMMARY}.html",
}
ENDINGS = (".json", ".xml", ".html")  # of the reports about one notebook
_NOTEBOOK = ".ipynb"
_LONGEST_PART, _LONGEST = 120, 250  # bytes of a file's name, and of a whole name: file systems take 255 for a part
_WINDOWS = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)  # names that Windows gives to no file


def find(path: pathlib.Path, out: pathlib.Path | None = None) -> dict[str, pathlib.Path]:
    """Return {name: path} of the notebooks: the file itself, or all in a folder and its subfolders, sorted.

    Folders whose name starts with "_" or "." are skipped; one that cannot be read stands for its notebooks. The names
    are printable, short enough for any disk, and such that each notebook has its own reports: none is another's folder,
    the class's own, or in the way of what is already in ``out``. Raises FileNotFoundError, with a sentence.
    """
    if not path.is_dir():
        if not os.path.lexists(path):
            raise FileNotFoundError(f"{path} does not exist.")
        return {_Names(out).notebook(pathlib.PurePath(path.name)): path}
    files, unread = [], []
    for folder, folders, names in path.walk(on_error=lambda error: unread.append(pathlib.Path(error.filename))):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        files += [folder / name for name in names if name.endswith(_NOTEBOOK)]
    if not files and not unread:
        raise FileNotFoundError(f"there is no notebook (.ipynb) in {path}.")
    names = _Names(out)
    places = {file: file.relative_to(path) for file in sorted([*files, *unread])}
    for place in places.values():  # folders first: a notebook can give way to a folder, whose notebooks are many
        names.folder(place.parent)
    return {names.notebook(place): file for file, place in places.items()}


def renamed(notebooks: dict[str, pathlib.Path], path: pathlib.Path) -> dict[str, str]:
    """Return {name: a sentence} for the notebooks in the folder ``path`` that the reports call by another name."""
    found = {}
    for name, file in notebooks.items():
        own = str(file.relative_to(path)) if path.is_dir() else file.name
        if name not in (own, own + _NOTEBOOK):
            found[name] = f"the notebook's file is {clean(ascii(own), 200)}; the reports have it as {name}"
    return found


class _Names:
    """The names given so far. Two names are the same if some file system takes them for the same."""

    def __init__(self, out: pathlib.Path | None):
        self.out = out
        self.files = {_key(name) for name in CLASS_FILES.values()}
        self.folders: dict[pathlib.PurePath, str] = {pathlib.PurePath("."): ""}
        self.taken: set[str] = set()  # the keys of the folders

    def folder(self, place: pathlib.PurePath) -> str:
        """Return the name of a folder, which ends with a slash; "" for the one that holds all."""
        if place not in self.folders:
            above = self.folder(place.parent)
            part = _part(place.name)
            if len((above + part).encode()) > _LONGEST - _LONGEST_PART:
                above, part = f"{above.partition('/')[0]}/" if above else "", "deep"
            name = self._free(above, part, self._takes_folder)
            self.folders[place] = f"{name}/"
            self.taken.add(_key(name))
        return self.folders[place]

    def notebook(self, place: pathlib.PurePath) -> str:
        """Return the name of a notebook."""
        part = _part(place.name.removesuffix(_NOTEBOOK))
        stem = self._free(self.folder(place.parent), part, self._takes_files)
        self.files |= {_key(stem + ending) for ending in ENDINGS}
        return stem + _NOTEBOOK

    def _free(self, above: str, part: str, takes) -> str:
        name, number = above + part, 1
        while not takes(name):
            number += 1
            name = f"{above}{part} ({number})"
        return name

    def _takes_folder(self, name: str) -> bool:
        there = self.out is not None and (self.out / name)
        return _key(name) not in self.files | self.taken and not (there and there.exists() and not there.is_dir())

    def _takes_files(self, stem: str) -> bool:
        keys = {_key(stem + ending) for ending in ENDINGS}
        there = self.out is not None and any((self.out / (stem + ending)).is_dir() for ending in ENDINGS)
        return not keys & (self.files | self.taken) and not there


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _part(name: str) -> str:
    """Return the name of a folder or file as every file system takes it; "unnamed" if nothing of it is left."""
    name = " ".join(clean(name).split()).replace("/", "")
    while len(name.encode()) > _LONGEST_PART:
        name = name[:-1]
    name = name.rstrip(". ")
    return "unnamed" if not name else f"{name}_" if _WINDOWS.fullmatch(name) else name
