"""The helper library of the Pallas kernel course.

Import the part you need (``from course_lib import checks``); this file imports nothing, so that ``import course_lib``
costs nothing.
"""

__version__ = "0.2.0"  # the only place: pyproject.toml reads it here
