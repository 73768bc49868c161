"""The real TPU compiler, with no TPU: ``compile_tpu(f, x, y)`` says yes or no, how long, and how much VMEM."""

from course_lib.compiler.tpu import Report, Unavailable, compile_tpu, libtpu_version, missing_libtpu

__all__ = ["Report", "Unavailable", "compile_tpu", "libtpu_version", "missing_libtpu"]
