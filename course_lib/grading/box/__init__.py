"""Grading in a closed box: students' code runs where it can reach nothing, and the judges stay outside.

The box turns Python into programs (jaxprs) and values, which come out as data. A judge in another process, which has
never run a student's code, runs the programs on inputs of its own. docs/grading.md says what that guarantees.
"""
