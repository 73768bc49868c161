"""What every test shares: the CPU, and a machine that keeps none of our processes."""

import os
import pathlib
import shutil
import tempfile
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # PyTorch loads no other package that happens to be installed
os.environ["COURSE_PROGRESS"] = "0"
os.environ["COURSE_RECORD"] = "0"
os.environ.pop("COURSE_GRADING", None)
# What a test compiles for the CPU, here or in a notebook's kernel, runs once or twice: optimizing it would take longer.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
# And many tests compile the same: the inputs of a lesson, its references, our own answers before a wrong one.
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
# What cannot be kept, or has only half been written by another worker, is compiled anew: nothing to complain about.
os.environ["PYTHONWARNINGS"] = ",".join(f"ignore:Error {what} persistent comp" for what in ("reading", "writing"))

import jax
import pytest
import seconds
import sweeps

from course_lib import compiler

jax.config.update("jax_num_cpu_devices", 8)  # as the first cell does, for kernels that copy to other devices

_WORKER_GIB = 3  # of a worker and its compilers
UNTIL, TIME_IS_UP = "COURSE_TESTS_UNTIL", "the time is up"


def pytest_addoption(parser):
    parser.addoption("--hold-budgets", action="store_true", help="fail if a part takes longer than tests/budgets.toml")
    parser.addoption("--minutes", type=float, help="skip the tests that have not begun after so many minutes")


def pytest_configure(config):
    """What is compiled, for the TPU or the CPU, is kept for this session alone: for its workers and their children."""
    for ignored in os.environ["PYTHONWARNINGS"].split(","):
        config.addinivalue_line("filterwarnings", ignored)
    if not hasattr(config, "workerinput"):
        config.kept = tempfile.mkdtemp(prefix="course-tests-cache-")
        os.environ.setdefault("COURSE_CACHE", config.kept)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{config.kept}/cpu"
        jax.config.update("jax_compilation_cache_dir", f"{config.kept}/cpu")
        if config.option.minutes is not None:
            os.environ[UNTIL] = str(time.time() + 60 * config.option.minutes)


def pytest_unconfigure(config):
    if folder := getattr(config, "kept", None):
        shutil.rmtree(folder, ignore_errors=True)


def pytest_ignore_collect(collection_path, config):
    """Tokamax takes three seconds to import: `make test`, which leaves its tests to `make test-all`, does not."""
    if collection_path.name.startswith("test_tokamax") and config.option.markexpr == "not sweep":
        return True


@pytest.hookimpl(tryfirst=True)  # before -k and -m: a share is one of all cases
def pytest_collection_modifyitems(config, items):
    """Of the wide sweeps a share."""
    if left_out := sweeps.not_their_turn(items):
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Two workers more than there are processors, if memory allows: many tests wait for a child or a browser."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return max(1, min(len(usable) + 2, int(memory / _WORKER_GIB)))


@pytest.fixture
def nothing_kept(monkeypatch):
    """The compiler's child itself answers: for tests of the child, and of its limits."""
    monkeypatch.setenv("COURSE_CACHE", "0")


_PINS = (pathlib.Path(__file__).resolve().parent.parent / "requirements.txt").read_text()
PINNED = f"jax=={jax.__version__}\n" in _PINS and compiler.libtpu_version() is not None
pinned = pytest.mark.skipif(not PINNED, reason="what is stored belongs to the pinned jax and libtpu")
needs_libtpu = pytest.mark.skipif(compiler.libtpu_version() is None, reason=compiler.tpu.missing_libtpu())


# The time a run takes, and the time it may take


def pytest_runtest_setup(item):
    if time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip(TIME_IS_UP)


def reports_of(config):
    """Return every report of this run that has a duration."""
    stats = config.pluginmanager.get_plugin("terminalreporter").stats
    return [report for group in stats.values() for report in group if hasattr(report, "duration")]


def pytest_sessionfinish(session):
    held = session.config.option.hold_budgets and not hasattr(session.config, "workerinput")
    if held and session.exitstatus == pytest.ExitCode.OK and seconds.over(reports_of(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    reports = reports_of(config)
    if len(reports) > 300 or config.option.hold_budgets:  # a few tests by hand need no summary
        terminalreporter.section("seconds by part")
        terminalreporter.write_line("\n".join([*seconds.lines(reports), *seconds.over(reports)]))
    if left := sum(TIME_IS_UP in str(report.longrepr) for report in reports):
        terminalreporter.write_line(f"{TIME_IS_UP}: {left} tests that the change may affect have not run.")
