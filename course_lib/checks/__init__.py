"""Checks of the exercises: ``check("01.1", fn)`` asks the four judges, ``hint`` and ``solution`` help."""

from course_lib.checks.check import NotPassed, Verdict, check
from course_lib.checks.doctor import doctor, start
from course_lib.checks.help import hint, solution

__all__ = ["NotPassed", "Verdict", "check", "doctor", "hint", "solution", "start"]
