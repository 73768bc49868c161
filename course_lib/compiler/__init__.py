"""The real TPU compiler, with no TPU: ``compile_tpu(f, x, y)`` says yes or no, how long, and how much VMEM."""

from course_lib.compiler.compare import Comparison, compare
from course_lib.compiler.report import Bundle, Extrapolation, Op, Report
from course_lib.compiler.tpu import Unavailable, compile_tpu, libtpu_version, missing_libtpu

__all__ = [
    "Bundle",
    "Comparison",
    "Extrapolation",
    "Op",
    "Report",
    "Unavailable",
    "compare",
    "compile_tpu",
    "libtpu_version",
    "missing_libtpu",
]
