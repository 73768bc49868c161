"""Checks of the exercises: ``check("01.1", answer)`` judges one, ``hint`` and ``solution`` help, ``progress`` shows.

A project has stages besides: ``predict``, ``planted`` and ``tuned``, and then ``report``. ``own_project`` declares one.
"""

from course_lib.checks.checking import assess, check, report
from course_lib.checks.course import course_map
from course_lib.checks.golf_scores import golf
from course_lib.checks.help import hint, listing, solution
from course_lib.checks.machine import doctor, start
from course_lib.checks.own import open_project, own_project
from course_lib.checks.panel import progress
from course_lib.checks.projects import planted, predict, project_times, tuned
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
    "golf",
    "hint",
    "listing",
    "open_project",
    "own_project",
    "parse",
    "planted",
    "predict",
    "progress",
    "project_times",
    "rehearsal",
    "report",
    "solution",
    "start",
    "tuned",
]
