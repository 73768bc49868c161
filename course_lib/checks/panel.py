"""The progress panel: every lesson and exercise, what passed, the points, attempts and hints."""

import dataclasses

from course_lib import text
from course_lib.checks import record
from course_lib.checks.exercise import Exercise, lessons
from course_lib.checks.record import Entry
from course_lib.checks.result import PASSED

_BAR = 20  # characters


@dataclasses.dataclass(frozen=True, kw_only=True)
class LessonProgress:
    """A lesson's exercises, each with its record."""

    number: str
    title: str
    rows: tuple[tuple[Exercise, Entry], ...]

    @property
    def passed(self) -> int:
        return sum(entry.outcome == PASSED for _, entry in self.rows)

    @property
    def points(self) -> int:
        return sum(task.points for task, entry in self.rows if entry.outcome == PASSED)

    @property
    def max_points(self) -> int:
        return sum(task.points for task, _ in self.rows)

    @property
    def table(self) -> list[tuple[list[str], bool]]:
        """Every exercise's cells (id, title, outcome and date, points, attempts, hints) and whether it passed."""
        return [(_cells(task, entry), entry.outcome == PASSED) for task, entry in self.rows]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Panel:
    """The progress over the course. ``print`` gives text; a notebook cell shows tables, folded but for one lesson's."""

    lessons: tuple[LessonProgress, ...]
    kept: str  # one line about where it is stored; "" if it is not

    @property
    def summary(self) -> str:
        passed, points, of = (sum(getattr(x, n) for x in self.lessons) for n in ("passed", "points", "max_points"))
        count = sum(len(lesson.rows) for lesson in self.lessons)
        return f"{passed} of {count} exercises passed, {points} of {of} points."

    @property
    def current(self) -> LessonProgress:
        """The lesson that the reader is at: the last in which anything was tried; the first, if nothing was."""
        tried = [lesson for lesson in self.lessons if any(entry.attempts or entry.hints for _, entry in lesson.rows)]
        return [*self.lessons[:1], *tried][-1]

    def __str__(self) -> str:
        return _as_text(self)

    __repr__ = __str__

    def _repr_mimebundle_(self, **kwargs) -> dict[str, str]:
        from course_lib.viz.pictures import progress_table

        return {"text/html": progress_table.html(self), "text/plain": str(self)}


def progress() -> Panel:
    """Return your progress over the course."""
    known = record.entries()
    return Panel(
        lessons=tuple(
            LessonProgress(
                number=lesson.number,
                title=lesson.title,
                rows=tuple((task, known.get(task.id, Entry())) for task in lesson.exercises),
            )
            for lesson in lessons()
        ),
        kept=_where_kept(),
    )


def _where_kept() -> str:
    if not record.recording():
        return ""
    if not record.on_file():
        return "Kept until this kernel ends."
    return f"Kept in {record.FILE}; delete the file to start again."


def _as_text(panel: Panel) -> str:
    lines = [panel.summary]
    for lesson in panel.lessons:
        filled = round(_BAR * lesson.points / lesson.max_points)
        bar = "█" * filled + "·" * (_BAR - filled)
        lines += ["", f"{lesson.number}  {lesson.title:<34.34}  {bar}  {lesson.points} of {lesson.max_points} points"]
        lines += text.table([cells for cells, _ in lesson.table], indent="  ", gives_way=1)  # the title
    return "\n".join([*lines, "", panel.kept]).rstrip()


def _cells(task: Exercise, entry: Entry) -> list[str]:
    points = f"{task.points if entry.outcome == PASSED else 0}/{task.points}" if task.points else ""
    attempts = f"{entry.attempts} attempt{'s' if entry.attempts != 1 else ''}" if entry.attempts else ""
    hints = f"{entry.hints} hint{'s' if entry.hints != 1 else ''}" if entry.hints else ""
    outcome = f"{entry.outcome} {entry.passed_on}".strip()
    if task.golf is not None and entry.best:
        outcome += f", best {entry.best:,} {task.golf.unit}"
    return [task.id, task.title, outcome, points, attempts, hints]
