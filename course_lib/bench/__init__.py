"""Ranking of block sizes by the compiler's cycle count, and timing of functions on this machine's device.

``autotune(op, x, y, candidates=[...])`` needs no device: its times are predicted. ``measure(f, x, y)`` needs one and
raises an error without it. ``gaps(trace)`` finds the times in a recorded profile when no thread is working.
"""

from course_lib.bench.autotune import Candidate, Tuned, autotune
from course_lib.bench.gaps import Gaps, gaps, took
from course_lib.bench.measured import Measured
from course_lib.bench.possible import Bound, Impossible, bound, refuse_the_impossible
from course_lib.bench.timing import NoAccelerator, accelerator, measure

__all__ = [
    "Bound",
    "Candidate",
    "Gaps",
    "Impossible",
    "Measured",
    "NoAccelerator",
    "Tuned",
    "accelerator",
    "autotune",
    "bound",
    "gaps",
    "measure",
    "refuse_the_impossible",
    "took",
]
