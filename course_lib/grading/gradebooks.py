"""The points of a class for the gradebooks of Canvas and Moodle, which both read CSV."""

from __future__ import annotations

from course_lib.grading.grade import Grade
from course_lib.grading.summary import table_csv, who


def canvas_csv(grades: list[Grade]) -> str:
    """As Canvas imports it: a line for each student, a column for each lesson, and a line of the points possible.

    A student is known by the login, "SIS Login ID": the name of the notebook, or of the folder it lies in.
    """
    lessons = _lessons(grades)
    head = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *lessons)
    possible = ("    Points Possible", "", "", "", "", *lessons.values())
    lines = [(student, "", "", student, "", *cells) for student, cells in _cells(grades, lessons)]
    return table_csv([head, possible, *lines])


def moodle_csv(grades: list[Grade]) -> str:
    """As Moodle imports it: a username, and a column for each lesson."""
    lessons = _lessons(grades)
    return table_csv([("username", *lessons), *((student, *cells) for student, cells in _cells(grades, lessons))])


def _lessons(grades: list[Grade]) -> dict[str, int]:
    """{lesson: its points}"""
    return {g.lesson: g.max_points for g in sorted(grades, key=lambda g: g.lesson) if g.rows}


def _cells(grades: list[Grade], lessons: dict[str, int]):
    """(student, points by lesson); empty where nothing was graded, which is not 0 points."""
    found: dict[str, dict[str, int]] = {}
    for grade in grades:
        found.setdefault(who(grade), {}).update({grade.lesson: grade.points} if grade.rows else {})
    return [(student, [points.get(lesson, "") for lesson in lessons]) for student, points in sorted(found.items())]
