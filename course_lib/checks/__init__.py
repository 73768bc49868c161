"""Checks of the exercises: ``check("01.1", fn)`` asks the four judges, ``hint`` and ``solution`` help."""

from course_lib.checks.help import hint, solution
from course_lib.checks.machine import doctor, start
from course_lib.checks.verdict import NotPassed, Verdict, check

__all__ = ["NotPassed", "Verdict", "check", "doctor", "hint", "solution", "start"]
