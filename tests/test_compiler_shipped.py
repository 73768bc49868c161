"""Cycles that come with the course: equal to what the simulator says, and used for nothing but the cycles."""

import json
import os
import shutil

import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from sample_kernels import array, matmul
from sweeps import daily

from course_lib import compiler
from course_lib.compiler.child import cache, service, shipped
from course_lib.compiler.simulating import answers

LARGE = [array((2048, 1024)), array((1024, 2048))]


def in_blocks_of_256(x, y):
    return matmul(x, y, (256, 256, 256))


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A cache of this test's own, and a course that brings nothing along: the folder of its first lesson."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "kept"))
    monkeypatch.delenv("COURSE_SHIPPED", raising=False)
    monkeypatch.setattr(shipped, "_seen", {})
    lesson = tmp_path / "lessons" / "lesson_01"
    lesson.mkdir(parents=True)
    monkeypatch.setattr(shipped, "LESSONS", lesson.parent)
    shipped.all_of_them.cache_clear()
    yield lesson
    shipped.all_of_them.cache_clear()


def ship(lesson, capsys):
    """What this process has been told comes with the course from now on; the cache forgets it."""
    capsys.readouterr()
    shipped.announce()
    (lesson / "cycles_notebooks.json").write_text(capsys.readouterr().out)
    shipped.all_of_them.cache_clear()
    shutil.rmtree(os.environ["COURSE_CACHE"])


@pytest.fixture
def asked(monkeypatch):
    """Whether the simulator was asked, for each question that went to the child."""
    asked, really = [], service._asked

    def noted(*question, **mesh):
        asked.append(question[2])
        return really(*question, **mesh)

    monkeypatch.setattr(service, "_asked", noted)
    return asked


FUNCTIONS = {
    "a kernel": (in_blocks_of_256, LARGE),
    "XLA's own matmul": (jnp.dot, [array((2048, 2048), jnp.bfloat16)] * 2),
}


@needs_libtpu
@pytest.mark.parametrize("name", daily("a kernel", of=FUNCTIONS))
def test_a_report_with_shipped_cycles_equals_a_simulated_one(name, course, asked, capsys, monkeypatch):
    fn, args = FUNCTIONS[name]
    monkeypatch.setattr(answers, "WORTH_NARROWING", 50_000)  # also where it is not
    simulated = compiler.compile_tpu(fn, *args)
    assert asked.count(True) == 2 and simulated.cycles and simulated.extrapolation
    ship(course, capsys)
    asked.clear()
    assert compiler.compile_tpu(fn, *args) == simulated
    assert asked == [False], "the whole is compiled by the compiler, here and now"


WHY = ["COURSE_SHIPPED", "COURSE_CACHE", "another program", "versions", "reader"]


@needs_libtpu
@pytest.mark.parametrize("why", daily("COURSE_SHIPPED", "another program", of=WHY))
def test_where_they_do_not_hold_the_simulator_is_asked(why, course, asked, capsys, monkeypatch):
    simulated = compiler.compile_tpu(in_blocks_of_256, *LARGE)
    ship(course, capsys)
    asked.clear()
    fn = in_blocks_of_256
    if why.startswith("COURSE"):
        monkeypatch.setenv(why, "0")
    elif why == "another program":
        fn = lambda x, y: matmul(x, y, (256, 512, 256))  # noqa: E731
    else:
        name = "_versions" if why == "versions" else "reader_of_cycles"
        monkeypatch.setattr(cache, name, lambda: b"another")
    report = compiler.compile_tpu(fn, *LARGE)
    assert sorted(asked) == [False, True, True]
    assert (report == simulated) == (why != "another program")


@pytest.mark.parametrize("file", ["child/service.py", "child/worker.py", "dumps/dump.py", "dumps/critical_path.py"])
def test_their_keys_change_with_the_code_that_reads_them(file, tmp_path, monkeypatch):
    before = cache.reader_of_cycles()
    shutil.copytree(os.path.dirname(compiler.__file__), tmp_path / "compiler")
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "compiler" / "child" / "cache.py"))
    assert cache.reader_of_cycles.__wrapped__() == before
    with open(tmp_path / "compiler" / file, "a") as source:
        source.write("# read otherwise\n")
    assert cache.reader_of_cycles.__wrapped__() != before


def test_every_line_is_read_back_as_it_was_written():
    files = sorted(shipped.LESSONS.glob(shipped.FILES))
    assert files, "the course brings none along"
    for file in files:
        assert file.stat().st_size < 100_000
        for key, plain in json.loads(file.read_text()).items():
            assert len(key) == 64 and sum(plain["cycles"].values()) > 0


@needs_libtpu
def test_a_key_does_not_hang_on_where_libtpu_lies(monkeypatch):
    """JAX puts its path into the environment, which is another in each place; one that somebody has chosen counts."""
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    without = service._settings(True)
    monkeypatch.setenv("TPU_LIBRARY_PATH", service._installed())
    assert service._settings(True) == without and os.sep + "site-packages" not in without
    monkeypatch.setenv("TPU_LIBRARY_PATH", "/home/somebody/libtpu.so")
    assert service._settings(True) != without
