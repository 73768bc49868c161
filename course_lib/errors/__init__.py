"""Explanations of raw failures of JAX, Pallas, the simulator and the compiler: what, why, what to do, which lesson.

The table is in ``rows``, one file per subject; tests/test_errors_<subject>.py provokes every row for real. A failure
that is not in the table keeps its own words: its last informative line.
"""

from course_lib.errors.explanation import WRITTEN, Explanation
from course_lib.errors.raw import raw_text
from course_lib.errors.table import explain

__all__ = ["WRITTEN", "Explanation", "explain", "raw_text"]
