"""How long a function takes on a chip, predicted from three roofs and constants fitted to published timings.

``predict(f, x, y)`` says which roof binds. docs/measured.md says where the timings come from.
"""

from course_lib.roofline import pipeline
from course_lib.roofline.constants import (
    CLOCK_HZ,
    DISPATCH_S,
    FITTED,
    HELD_OUT,
    ISSUE_CYCLES,
    LATENCY,
    LATENCY_CYCLES,
    Fitted,
    latency,
)
from course_lib.roofline.load import Load, load
from course_lib.roofline.opinions import Opinions, opinions
from course_lib.roofline.prediction import Prediction, intensity, predict, ridge_point, time_of

__all__ = [
    "CLOCK_HZ",
    "DISPATCH_S",
    "FITTED",
    "HELD_OUT",
    "ISSUE_CYCLES",
    "LATENCY",
    "LATENCY_CYCLES",
    "Fitted",
    "Load",
    "Opinions",
    "Prediction",
    "intensity",
    "latency",
    "load",
    "opinions",
    "pipeline",
    "predict",
    "ridge_point",
    "time_of",
]
