"""The explanation of a failure that a learner reads."""

import dataclasses
import pathlib

from course_lib import text

_LESSONS = pathlib.Path(__file__).parents[1] / "lessons"
# The lessons that exist: "01", ... (Python may leave a folder without __init__.py behind when a lesson is removed.)
WRITTEN = tuple(sorted(file.parent.name.removeprefix("lesson_") for file in _LESSONS.glob("lesson_*/__init__.py")))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """``what`` happened; ``next``: one thing to try; ``lesson``: where it is taught, or ""."""

    name: str  # the row of the table, "" if none fits
    what: str
    next: str = ""
    lesson: str = ""

    def __str__(self) -> str:
        return text.folded(self.what + (f"\nNext: {self.next}" if self.next else ""))
