"""What every test shares: the CPU, and a machine that keeps none of our processes."""

import os
import shutil
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"
os.environ["COURSE_PROGRESS"] = "0"
os.environ["COURSE_RECORD"] = "0"
os.environ.pop("COURSE_GRADING", None)

import jax
import pytest
import seconds

from course_lib import compiler

# What a test compiles for the CPU it runs once or twice: a fifth of its time would go into optimizing that.
jax.config.update("jax_disable_most_optimizations", True)


def pytest_configure(config):
    """The compiler's answers are kept for this session alone, in one folder for all its workers and their children."""
    if not hasattr(config, "workerinput") and "COURSE_CACHE" not in os.environ:
        os.environ["COURSE_CACHE"] = config.course_cache = tempfile.mkdtemp(prefix="course-tests-cache-")


def pytest_unconfigure(config):
    if folder := getattr(config, "course_cache", None):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """One worker more than there are processors: tests that wait, for a browser or a time limit, leave none idle."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return len(usable) + 1


@pytest.fixture
def nothing_kept(monkeypatch):
    """The compiler's child itself answers: for tests of the child, and of its limits."""
    monkeypatch.setenv("COURSE_CACHE", "0")


needs_libtpu = pytest.mark.skipif(compiler.libtpu_version() is None, reason=compiler.tpu.missing_libtpu())


def pytest_terminal_summary(terminalreporter):
    reports = [r for group in terminalreporter.stats.values() for r in group if hasattr(r, "duration")]
    if len(reports) > 300:  # a few tests by hand need no summary
        terminalreporter.section("seconds by part")
        terminalreporter.write_line("\n".join(seconds.lines(reports)))
