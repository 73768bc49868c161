"""Checks of the exercises: ``check("01.1", answer)`` judges one, ``hint`` and ``solution`` help, ``progress`` shows."""

from course_lib.checks.checking import assess, check, report
from course_lib.checks.course import course_map
from course_lib.checks.help import hint, listing, solution
from course_lib.checks.machine import doctor, start
from course_lib.checks.panel import progress
from course_lib.checks.quantity import parse
from course_lib.checks.record import rehearsal
from course_lib.checks.result import NotPassed, Result

__all__ = [
    "NotPassed",
    "Result",
    "assess",
    "check",
    "course_map",
    "doctor",
    "hint",
    "listing",
    "parse",
    "progress",
    "rehearsal",
    "report",
    "solution",
    "start",
]
