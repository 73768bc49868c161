"""Which blocks are fastest by the compiler's count, and how long a function takes on the device of this machine.

``autotune(op, x, y, candidates=[...])`` needs no device: its times are predicted. ``measure(f, x, y)`` needs one, and
says no where there is none.
"""

from course_lib.bench.autotune import Candidate, Tuned, autotune
from course_lib.bench.measured import Measured
from course_lib.bench.possible import Bound, Impossible, bound, refuse_the_impossible
from course_lib.bench.timing import NoAccelerator, accelerator, measure

__all__ = [
    "Bound",
    "Candidate",
    "Impossible",
    "Measured",
    "NoAccelerator",
    "Tuned",
    "accelerator",
    "autotune",
    "bound",
    "measure",
    "refuse_the_impossible",
]
