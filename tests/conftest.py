"""What every test shares: the CPU, and a machine that keeps none of our processes."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"
os.environ["COURSE_PROGRESS"] = "0"
os.environ["COURSE_RECORD"] = "0"
os.environ.pop("COURSE_GRADING", None)

import pytest
import seconds

from course_lib import compiler

needs_libtpu = pytest.mark.skipif(compiler.libtpu_version() is None, reason=compiler.tpu.missing_libtpu())


def pytest_terminal_summary(terminalreporter):
    reports = [r for group in terminalreporter.stats.values() for r in group if hasattr(r, "duration")]
    if len(reports) > 300:  # a few tests by hand need no summary
        terminalreporter.section("seconds by part")
        terminalreporter.write_line("\n".join(seconds.lines(reports)))
