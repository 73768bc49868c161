"""The points of a class as CSV for the gradebooks of Canvas and Moodle."""

from __future__ import annotations

from course_lib.grading.grade import Grade
from course_lib.grading.summary import table_csv, who


def canvas_csv(grades: list[Grade]) -> str:
    """Return the CSV that Canvas imports: a line per student, a column per lesson, and a line of possible points.

    A student is identified by the login ("SIS Login ID"), which is the name of the notebook or of its folder.
    """
    lessons = _lessons(grades)
    head = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *lessons)
    possible = ("    Points Possible", "", "", "", "", *lessons.values())
    lines = [(student, "", "", student, "", *cells) for student, cells in _cells(grades, lessons)]
    return table_csv([head, possible, *lines])


def moodle_csv(grades: list[Grade]) -> str:
    """Return the CSV that Moodle imports: a username, and a column per lesson."""
    lessons = _lessons(grades)
    return table_csv([("username", *lessons), *((student, *cells) for student, cells in _cells(grades, lessons))])


def _lessons(grades: list[Grade]) -> dict[str, int]:
    """Return {lesson: its points}."""
    return {g.lesson: g.max_points for g in sorted(grades, key=lambda g: g.lesson) if g.rows}


def _cells(grades: list[Grade], lessons: dict[str, int]):
    """Return (student, points by lesson); a lesson that was not graded is empty, which is not 0 points."""
    found: dict[str, dict[str, int]] = {}
    for grade in grades:
        found.setdefault(who(grade), {}).update({grade.lesson: grade.points} if grade.rows else {})
    return [(student, [points.get(lesson, "") for lesson in lessons]) for student, points in sorted(found.items())]
