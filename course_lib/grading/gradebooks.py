"""The points of a class as CSV for the gradebooks of Canvas and Moodle.

Both find a student by the login, letter for letter, so a login is written as it is. Spreadsheets take a cell that
begins with = + - or @ for a formula; what is no login by the rules of either is therefore written as text.
"""

from __future__ import annotations

import re

from course_lib.grading.grade import Grade
from course_lib.grading.summary import by_student, no_formula, plain_csv, who

_POINTS_POSSIBLE = "Points Possible"
_LOGIN = re.compile(r"[\w.@=+~-]+")  # what Canvas and Moodle allow in one: no bracket, quote, bar, comma or space


def canvas_csv(grades: list[Grade]) -> str:
    """Return the CSV that Canvas imports: a line per student, a column per lesson, and a line of possible points.

    A student is identified by the login ("SIS Login ID"), which is the name of the notebook or of its folder. Canvas
    takes a line for the possible points if its first cell says so, whatever its login: no student is called that.
    """
    lessons = _lessons(grades)
    head = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *lessons)
    possible = (f"    {_POINTS_POSSIBLE}", "", "", "", "", *lessons.values())
    students = [(s, cells) for s, cells in _cells(grades, lessons) if not _means_points_possible(s)]
    lines = [(no_formula(student), "", "", _login(student), "", *cells) for student, cells in students]
    return plain_csv([head, possible, *lines])


def moodle_csv(grades: list[Grade]) -> str:
    """Return the CSV that Moodle imports: a username, and a column per lesson."""
    lessons = _lessons(grades)
    lines = [(_login(student), *cells) for student, cells in _cells(grades, lessons)]
    return plain_csv([("username", *lessons), *lines])


def left_out(grades: list[Grade]) -> list[str]:
    """Return a sentence on each student whom ``canvas_csv`` leaves out."""
    names = sorted({who(grade) for grade in grades if _means_points_possible(who(grade))})
    return [f"{name!r} is no login, and Canvas would take it for the possible points: it is not in canvas.csv."
            for name in names]  # fmt: skip


def _means_points_possible(student: str) -> bool:
    return _POINTS_POSSIBLE.casefold() in " ".join(re.split(r"[\W_]+", student)).casefold()


def _login(student: str) -> str:
    return student if _LOGIN.fullmatch(student) else no_formula(student)


def _lessons(grades: list[Grade]) -> dict[str, int]:
    """Return {lesson: its points}."""
    return {g.lesson: g.max_points for g in sorted(grades, key=lambda g: g.lesson) if g.rows}


def _cells(grades: list[Grade], lessons: dict[str, int]):
    """Return (student, points by lesson); a lesson that was not graded is empty, which is not 0 points."""
    best = {key: several[0].points for key, several in by_student(grades).items()}
    for student in sorted({who(grade) for grade in grades}):
        yield student, [best.get((student, lesson), "") for lesson in lessons]
