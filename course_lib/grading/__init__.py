"""Grading of notebooks through nbval: ``python -m course_lib.grading NB``, or ``grade(path)``."""

from course_lib.grading.grade import Grade, grade

__all__ = ["Grade", "grade"]
