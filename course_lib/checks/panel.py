"""The progress panel: every lesson and exercise, what passed, the points, attempts and hints."""

import dataclasses
import html

from course_lib.checks import record
from course_lib.checks.exercise import Exercise, exercises, lessons
from course_lib.checks.record import Entry
from course_lib.checks.verdict import PASSED

# As in course_lib.viz.draw, which this layer may not import.
_INK, _MUTED, _LINE, _TRACK, _PAPER, _BLUE = "#1f2933", "#56616d", "#c9d1d9", "#e9edf2", "#ffffff", "#0072b2"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
_BAR, _COLUMNS = 20, 94  # characters


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lesson:
    """A lesson's exercises, each with what is known of it."""

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Panel:
    """The progress over the course. ``print`` gives the text, a notebook cell shows the table."""

    lessons: tuple[Lesson, ...]
    kept: str  # one line about where it is kept; "" where nothing is

    def __str__(self) -> str:
        return _as_text(self)

    __repr__ = __str__

    def _repr_mimebundle_(self, **kwargs) -> dict[str, str]:
        return {"text/html": _as_html(self), "text/plain": str(self)}


def progress() -> Panel:
    """Your progress over the course."""
    known = record.entries()
    rows = [(task, known.get(task.id, Entry())) for task in exercises().values()]
    return Panel(
        lessons=tuple(
            Lesson(number=number, title=title, rows=tuple(r for r in rows if r[0].id.startswith(number + ".")))
            for number, title in lessons().items()
        ),
        kept=_where_kept(),
    )


def _where_kept() -> str:
    if not record.recording():
        return ""
    if not record.on_file():
        return "Kept until this kernel ends."
    return f"Kept in {record.FILE}; delete the file to begin anew."


def _summary(panel: Panel) -> str:
    passed, points, of = (sum(getattr(x, n) for x in panel.lessons) for n in ("passed", "points", "max_points"))
    count = sum(len(lesson.rows) for lesson in panel.lessons)
    return f"{passed} of {count} exercises passed, {points} of {of} points."


def _as_text(panel: Panel) -> str:
    lines = [_summary(panel)]
    for lesson in panel.lessons:
        filled = round(_BAR * lesson.points / lesson.max_points)
        bar = "█" * filled + "·" * (_BAR - filled)
        lines += ["", f"{lesson.number}  {lesson.title:<34.34}  {bar}  {lesson.points} of {lesson.max_points} points"]
        lines += _aligned([_cells(task, entry) for task, entry in lesson.rows])
    return "\n".join([*lines, "", panel.kept]).rstrip()


def _aligned(rows: list[list[str]]) -> list[str]:
    """Lines of at most 94 columns; the title gives way where there is too little room."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[1] = min(widths[1], _COLUMNS - 2 * len(widths) - sum(widths) + widths[1])
    lines = []
    for row in rows:
        cells = [c if len(c) <= w else c[: w - 1] + "…" for c, w in zip(row, widths, strict=True)]
        lines.append("  " + "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip())
    return lines


def _cells(task: Exercise, entry: Entry) -> list[str]:
    """A row of the table: id, title, outcome and date, points, attempts, hints."""
    points = f"{task.points if entry.outcome == PASSED else 0}/{task.points}" if task.points else ""
    attempts = f"{entry.attempts} attempt{'s' if entry.attempts != 1 else ''}" if entry.attempts else ""
    hints = f"{entry.hints} hint{'s' if entry.hints != 1 else ''}" if entry.hints else ""
    return [task.id, task.title, f"{entry.outcome} {entry.passed_on}".strip(), points, attempts, hints]


def _as_html(panel: Panel) -> str:
    card = (
        f"background: {_PAPER}; color: {_INK}; border: 1px solid {_LINE}; border-radius: 6px; padding: 18px; "
        f"max-width: 684px; font-family: {_FONT}; font-size: 13px"
    )
    body = "".join(map(_lesson_as_html, panel.lessons))
    return (
        f'<div style="{card}"><div style="font-weight: 600">{_summary(panel)}</div>'
        f'<table style="border-collapse: collapse; width: 100%; color: {_INK}; margin: 0; font-size: 12px">{body}'
        f'</table><div style="color: {_MUTED}; margin-top: 10px">{panel.kept}</div></div>'
    )


def _lesson_as_html(lesson: Lesson) -> str:
    share = round(100 * lesson.points / lesson.max_points)
    bar = (
        f'<div style="background: {_TRACK}; border-radius: 4px; height: 8px; width: 160px; margin-bottom: 3px">'
        f'<div style="background: {_BLUE}; border-radius: 4px; height: 8px; width: {share}%"></div></div>'
    )
    head = (
        f'<tr style="background: {_PAPER}"><th colspan="3" style="text-align: left; padding: 12px 6px 4px 0">'
        f"{lesson.number} {html.escape(lesson.title)}</th>"
        f'<th colspan="3" style="text-align: left; padding: 12px 6px 4px 0; font-weight: 400">{bar}'
        f"{lesson.points} of {lesson.max_points} points</th></tr>"
    )
    return head + "".join(_row_as_html(_cells(task, entry), entry.outcome == PASSED) for task, entry in lesson.rows)


def _row_as_html(cells: list[str], passed: bool) -> str:
    style = f"text-align: left; padding: 3px 8px 3px 0; border-top: 1px solid {_TRACK}; color: {_INK}"
    mark = "✓ " if passed else ""
    shown = [html.escape(mark + cell if n == 2 else cell) for n, cell in enumerate(cells)]
    return f'<tr style="background: {_PAPER}">' + "".join(f'<td style="{style}">{c}</td>' for c in shown) + "</tr>"
