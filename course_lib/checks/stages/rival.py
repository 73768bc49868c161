"""What a project is compared with: the time of the reference, as XLA compiles it for the same chip."""

from __future__ import annotations

from collections.abc import Callable

from course_lib import compiler, roofline, vocabulary
from course_lib.checks.kinds.project import BY_BYTES

PATIENCE_S = 60.0  # of XLA's simulation


def time_of(
    fn: Callable, args: tuple, chip: str = "v5e", *, time_limit_s: float = PATIENCE_S, **limits
) -> tuple[float | None, str]:
    """Return (seconds, whose figure that is) of a function without kernels; None for the time without the compiler.

    The figure is the compiler's; where its simulator has no answer, it is the time of the program's bytes at full
    bandwidth, so that the program takes at least as long, or that of ``roofline.predict``, whichever is longer.
    ``limits``: ``simulate`` and ``memory_bytes``, as ``compiler.compile_tpu`` takes them.
    """
    try:
        report = compiler.compile_tpu(fn, *args, chip=chip, time_limit_s=time_limit_s, **limits)
    except compiler.Unavailable:
        return None, BY_BYTES
    if report.seconds is not None:
        return report.seconds, vocabulary.COMPILER
    model = roofline.predict(fn, *args, chip=chip).seconds
    return max((report.hbm_seconds or 0.0, BY_BYTES), (model, vocabulary.MODEL))
