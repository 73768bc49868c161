"""What a learner reads when something failed."""

import dataclasses
import pathlib

from course_lib import text

_LESSONS = pathlib.Path(__file__).parents[1] / "lessons"
# The lessons that one can turn to: "01", ... (A folder without __init__.py is what Python left of one that is gone.)
WRITTEN = tuple(sorted(file.parent.name.removeprefix("lesson_") for file in _LESSONS.glob("lesson_*/__init__.py")))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """``what`` happened, ``next``: one thing to try, ``lesson``: where it is taught ("" if nowhere)."""

    name: str  # the row of the table, "" if none fits
    what: str
    next: str = ""
    lesson: str = ""

    def __str__(self) -> str:
        return text.folded(self.what + (f"\nNext: {self.next}" if self.next else ""))
