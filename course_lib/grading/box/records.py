"""The finished grades of a class that is being graded, so that a killed run can continue.

They lie in ``.grading`` beside the reports, one file per notebook, and are deleted once all are done. A record is valid
only for exactly the same notebook, course and inputs; a damaged one is made again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import secrets
import shutil

from course_lib.grading.grade import Grade, versions
from course_lib.grading.graft import EXERCISES
from course_lib.grading.rows import Row

_LIBRARY = pathlib.Path(__file__).resolve().parents[2]


class Records:
    """The finished grades of one class. ``seed`` is that of the interrupted run, if any; ``settings`` are options."""

    def __init__(self, out: pathlib.Path, settings: str):
        self.folder = out / ".grading"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self._made_with = _course() + f"{versions()} {settings}".encode()
        self.seed = self._seed()

    def _seed(self) -> int:
        """Return the seed of the inputs; it is drawn once, and kept for a run that continues."""
        file = self.folder / "seed"
        try:
            return int(file.read_text())
        except (OSError, ValueError):
            seed = secrets.randbits(48)
            _write(file, str(seed))
            return seed

    def find(self, name: str, notebook: pathlib.Path) -> Grade | None:
        """Return the grade of a notebook; None if there is no complete record of it."""
        try:
            data = json.loads(self._file(name, notebook).read_text())
            rows = tuple(Row(**row) for row in data.pop("rows"))
            return Grade(**data, rows=rows) if data["file"] == name else None
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def keep(self, graded: Grade, notebook: pathlib.Path) -> None:
        """Save a grade. Raise OSError if the disk is full."""
        data = dataclasses.asdict(graded)
        _write(self._file(graded.file, notebook), json.dumps(data))

    def done(self) -> None:
        """Delete all records, because every notebook is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, name: str, notebook: pathlib.Path) -> pathlib.Path:
        digest = hashlib.sha256(self._made_with + f"{self.seed} {name}\n".encode() + _bytes(notebook))
        return self.folder / f"{digest.hexdigest()}.json"


def _bytes(notebook: pathlib.Path) -> bytes:
    try:
        if notebook.is_file() and not notebook.is_symlink() and notebook.stat().st_size <= 6 << 20:
            return notebook.read_bytes()
    except OSError:
        pass
    return b""  # it cannot be graded, and finding that out again is cheap


def _course() -> bytes:
    """Return a digest of the course as it is now: its exercises and its library."""
    found = hashlib.sha256()
    for file in sorted([*EXERCISES.glob("*.ipynb"), *_LIBRARY.rglob("*.py")]):
        found.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return found.digest()


def _write(file: pathlib.Path, text: str) -> None:
    """Write the file atomically, because a run may be killed at any moment."""
    part = file.with_suffix(".part")
    with part.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)
