"""Which blocks are fastest by the compiler's count, and how long a function takes on the device of this machine.

``autotune(op, x, y, candidates=[...])`` needs no device: its times are predicted. ``measure(f, x, y)`` needs one, and
says no where there is none. ``gaps(trace)`` says when a recorded profile shows nobody at work.
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
