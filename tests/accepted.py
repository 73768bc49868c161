"""All judges accept a kernel, and none is skipped but for what this machine lacks."""

from course_lib import compiler, judges


def accepted(fn, reference, *args, **how) -> None:
    """Check that every judge passes ``fn``; the compiler's may be skipped where there is no libtpu.

    Without cycles, which would take as long again as everything else about a small kernel.
    """
    verdicts = judges.judge(fn, reference, *args, simulate=False, **how)
    for verdict in verdicts:
        may_skip = verdict.judge == "compiler" and compiler.libtpu_version() is None
        assert verdict.passed or (verdict.passed is None and may_skip), str(verdict)
    assert len(verdicts) >= 4, [verdict.judge for verdict in verdicts]
