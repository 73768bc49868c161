"""What a learner reads when something failed."""

import dataclasses
import pathlib

from course_lib import text

_LESSONS = pathlib.Path(__file__).parents[1] / "lessons"
WRITTEN = tuple(sorted(folder.name.removeprefix("lesson_") for folder in _LESSONS.glob("lesson_*")))  # one can turn to


@dataclasses.dataclass(frozen=True, kw_only=True)
class Explanation:
    """``what`` happened, ``next``: one thing to try, ``lesson``: where it is taught ("" if nowhere)."""

    name: str  # the row of the table, "" if none fits
    what: str
    next: str = ""
    lesson: str = ""

    def __str__(self) -> str:
        return text.folded(self.what + (f"\nNext: {self.next}" if self.next else ""))
