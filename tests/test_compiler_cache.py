"""Answers of the compiler that are kept: equal to fresh ones, for the same question alone, and never in the way."""

import json
import multiprocessing
import os
import shutil
import zlib

import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from sample_kernels import VECTOR, add, array, matmul
from sweeps import daily

from course_lib import compiler, environment
from course_lib.compiler.child import cache, service

REFUSAL = {"ok": False, "stage": "compile", "error": "XlaRuntimeError: UNIMPLEMENTED: not on this chip"}
# A kernel that Mosaic refuses, naming the line of the operation. Line 3 of this text, as it stands.
STRIDED = """
def strided(x_ref, o_ref):
    o_ref[...] = x_ref[::3].sum() + x_ref[...]


def run(x):
    return pl.pallas_call(strided, out_shape=x)(x)
"""


def written_at(line: int, source: str = STRIDED, file: str = "cell.py"):
    """The ``run`` of ``source``, which begins at a line of a file."""
    names: dict = {}
    exec("from jax.experimental import pallas as pl\nimport jax", names)
    exec(compile("\n" * (line - 1) + source, file, "exec"), names)
    return names["run"]


def too_much_vmem(x):
    def takes(x_ref, o_ref, big_ref):
        big_ref[:8] = x_ref[...]
        o_ref[...] = big_ref[8:16]

    scratch = [pltpu.VMEM((20 << 20 >> 9, 128), jnp.float32)]
    return pl.pallas_call(takes, out_shape=x, scratch_shapes=scratch)(x)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of this test's own, empty."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "kept"))
    cache.counts.clear()
    return tmp_path / "kept" / "compiled"


@pytest.fixture
def asked(monkeypatch):
    """Programs that would have gone to the child, which is not there: it refuses all of them."""
    asked = []
    monkeypatch.setattr(service, "_asked", lambda *question, **_: asked.append(question) or REFUSAL)
    return asked


REPORTS = {
    "a kernel": (add, [VECTOR, VECTOR], True),
    "an extrapolated one": (
        lambda x, y: matmul(x, y, (256, 256, 256)),
        [array((2048, 1024)), array((1024, 2048))],
        True,
    ),
    "XLA's own": (jnp.dot, [array((256, 256), jnp.bfloat16)] * 2, True),
    "too much VMEM": (too_much_vmem, [array((8, 128))], False),
    "a refused operation": (written_at(1), [array((256, 256))], False),
}


@needs_libtpu
@pytest.mark.parametrize("name", daily("a kernel", "too much VMEM", "a refused operation", of=REPORTS))
def test_a_kept_report_equals_a_fresh_one(name, folder, monkeypatch):
    fn, args, ok = REPORTS[name]
    with monkeypatch.context() as off:
        off.setenv("COURSE_CACHE", "0")
        fresh = compiler.compile_tpu(fn, *args)
    assert fresh.ok is ok and not folder.exists() and not cache.counts, "nothing was looked up or kept"
    first = compiler.compile_tpu(fn, *args)
    assert cache.counts["misses"] == len(os.listdir(folder)) > 0 and not cache.counts["hits"]
    with monkeypatch.context() as alone:
        alone.setattr(service, "_asked", None)
        again = compiler.compile_tpu(fn, *args)
    assert cache.counts["hits"] == cache.counts["misses"]
    assert again == first == fresh
    assert str(again) == str(fresh)


@needs_libtpu
def test_a_kernel_in_another_cell_is_the_same_program(folder, monkeypatch):
    doubles = STRIDED.replace("x_ref[::3].sum()", "x_ref[...]")
    first = compiler.compile_tpu(written_at(1, doubles), VECTOR)
    monkeypatch.setattr(service, "_asked", None)
    assert compiler.compile_tpu(written_at(40, doubles, "/tmp/ipykernel_7/123.py"), VECTOR) == first
    with pytest.raises(TypeError, match="NoneType"):  # another program, and nobody to ask
        compiler.compile_tpu(written_at(1, doubles.replace("+", "-")), VECTOR)


@needs_libtpu
def test_a_refusal_names_the_line_where_it_stands_now(folder):
    for line in (1, 40, 1):
        said = compiler.compile_tpu(written_at(line), array((256, 256)), simulate=False).error
        assert f"in strided, line {line + 2})" in said.what
    assert cache.counts == {"misses": 3, "hits": 3}, "the program, and its lines at 1 and 40; both at 1 again"


@needs_libtpu
@pytest.mark.parametrize(
    "other", ["nothing", "program", "chip", "simulate", "memory", "XLA_FLAGS", "versions", "reader"]
)
def test_every_part_of_the_question_counts(other, folder, asked, monkeypatch):
    fn, how = add, {"chip": "v5e", "simulate": False, "memory_bytes": 2 << 30}
    compiler.compile_tpu(fn, VECTOR, VECTOR, **how)
    compiler.compile_tpu(fn, VECTOR, VECTOR, **how)
    assert len(asked) == 1, "the second time it is known"
    if other == "program":
        fn = lambda x, y: add(x, y, block=2048)  # noqa: E731
    elif other == "XLA_FLAGS":
        monkeypatch.setenv("XLA_FLAGS", "--xla_tpu_scoped_vmem_limit_kib=65536")
    elif other in ("versions", "reader"):
        name = "_versions" if other == "versions" else "reader"
        monkeypatch.setattr(cache, name, lambda: b"another")
    elif other != "nothing":
        how |= {"chip": {"chip": "v6e"}, "simulate": {"simulate": True}, "memory": {"memory_bytes": 3 << 30}}[other]
    compiler.compile_tpu(fn, VECTOR, VECTOR, **how)
    assert len(asked) == (1 if other == "nothing" else 2)


@pytest.mark.parametrize(
    "file", ["report.py", "child/service.py", "child/cache.py", "dumps/bundles.py", "dumps/new.py"]
)
def test_the_reader_is_all_the_code_that_makes_an_answer(file, tmp_path, monkeypatch):
    before = cache.reader()
    original = os.path.dirname(compiler.__file__)
    shutil.copytree(original, tmp_path / "compiler", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "compiler" / "child" / "cache.py"))
    assert cache.reader.__wrapped__() == before
    with open(tmp_path / "compiler" / file, "a") as source:
        source.write("# read otherwise\n")
    assert cache.reader.__wrapped__() != before


def test_only_answers_are_kept(folder, asked, monkeypatch):
    question = {"simulate": False, "time_limit_s": 1, "memory_bytes": 1 << 30}
    does_not_start = REFUSAL | {"stage": "start"}
    monkeypatch.setattr(service, "_asked", lambda *_, **__: does_not_start)
    assert service.compile_module("v5e:1x1", b"module", **question) == does_not_start

    def dies(*_, **__):
        raise service.WorkerDied("no answer within 1 s")

    monkeypatch.setattr(service, "_asked", dies)
    for _ in range(2):
        with pytest.raises(service.WorkerDied):
            service.compile_module("v5e:1x1", b"module", **question)
    assert not folder.exists() and cache.counts == {"misses": 3}


def packed(answer) -> bytes:
    return zlib.compress(json.dumps(answer).encode())


EMPTY = {"cycles": {}, "alike": {}, "programs": {}, "time_split": {}, "vmem": []}
GOOD = {"ok": True, "hlo": "HloModule", "code_bytes": 1, "dump": EMPTY}
DAMAGED = {
    "empty": b"",
    "garbage": os.urandom(200),
    "cut off": packed(GOOD)[:-3],
    "a flipped bit": packed(GOOD)[:-1] + bytes([packed(GOOD)[-1] ^ 1]),
    "no JSON": zlib.compress(b"import os"),
    "no object": packed([1, 2]),
    "nested without end": zlib.compress(b"[" * 100_000),
    "a field missing": packed({"ok": True, "hlo": ""}),
    "a word for a number": packed(GOOD | {"dump": EMPTY | {"cycles": {"op": "many"}}}),
    "a field too many": packed(GOOD | {"dump": EMPTY | {"vmem": [{"op": "k", "size": 1}]}}),
    "no list of bundles": packed(GOOD | {"dump": EMPTY | {"programs": {"k": {"listing": 3}}}}),
    "ok by another word": packed(GOOD | {"ok": "yes"}),
    "what is never kept": packed(REFUSAL | {"stage": "start"}),
}


def test_the_good_one_is_good(folder):
    """Else every file below would be refused for the same reason."""
    folder.mkdir(parents=True)
    (folder / "key").write_bytes(packed(GOOD))
    assert cache.get("key")["dump"].cycles == {}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_none_and_goes(content, folder):
    folder.mkdir(parents=True)
    (folder / "key").write_bytes(content)
    assert cache.get("key") is None
    assert not (folder / "key").exists()
    cache.put("key", REFUSAL)
    assert cache.get("key") == REFUSAL


def test_a_file_that_unpacks_without_end_is_not_unpacked(folder, monkeypatch):
    monkeypatch.setattr(cache, "_MOST_TEXT", 1000)
    cache.put("key", REFUSAL | {"error": "x" * 100_000})
    assert cache.get("key") is None


def test_what_was_used_last_stays(folder, monkeypatch):
    size = len(packed(REFUSAL))
    for age, name in enumerate("cba"):
        cache.put(name, REFUSAL)
        os.utime(folder / name, (1e9 - age, 1e9 - age))  # a is the oldest
    monkeypatch.setattr(cache, "MOST_BYTES", 3 * size + 10)
    assert cache.get("a") == REFUSAL
    cache.put("d", REFUSAL)
    assert sorted(os.listdir(folder)) == ["a", "c", "d"]
    monkeypatch.setattr(cache, "MOST_BYTES", 0)
    cache.put("e", REFUSAL)
    assert os.listdir(folder) == []


def test_what_a_killed_process_left_goes_too(folder, monkeypatch):
    cache.put("a", REFUSAL)
    (folder / ".new-half").write_bytes(b"0" * 10_000)
    os.utime(folder / ".new-half", (1e9, 1e9))
    monkeypatch.setattr(cache, "MOST_BYTES", 5_000)
    cache.put("b", REFUSAL)
    assert sorted(os.listdir(folder)) == ["a", "b"]


def _busy(number: int) -> int:
    """Put and get a few keys, over and over, with room for half of them; how many answers were found."""
    cache.MOST_BYTES, found = 4 * len(packed(REFUSAL)), 0
    for n in range(200):
        key = f"key-{(n * (number + 1)) % 8}"
        cache.put(key, REFUSAL | {"error": key})
        answer = cache.get(key)
        assert answer in (None, REFUSAL | {"error": key})
        found += answer is not None
    return found


def test_several_processes_at_once(folder):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(_busy, range(2), chunksize=1)
    assert min(found) > 0
    assert not [name for name in os.listdir(folder) if name.startswith(".new-")]


@pytest.mark.parametrize("why", ["a file in its place", "full", "not ours"])
def test_where_nothing_can_be_written_all_goes_on(why, folder, asked, monkeypatch):
    if why == "a file in its place":
        folder.parent.mkdir()
        folder.write_text("")
    elif why == "full":
        monkeypatch.setattr(cache.os, "replace", _no_space)
    else:
        monkeypatch.setattr(cache.tempfile, "mkstemp", _not_permitted)
    for _ in range(2):
        report = compiler.compile_tpu(add, VECTOR, VECTOR)
        assert not report.ok and report.stage == "compile"
    assert len(asked) == 2 and (why == "a file in its place" or os.listdir(folder) == [])


def _no_space(*_):
    raise OSError(28, "No space left on device")


def _not_permitted(*_, **__):
    raise PermissionError(13, "Permission denied")


def test_a_folder_that_can_only_be_read_still_answers(folder, monkeypatch):
    cache.put("key", REFUSAL)
    monkeypatch.setattr(cache.os, "utime", _not_permitted)
    assert cache.get("key") == REFUSAL


def test_where_it_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_CACHE", "0")
    assert environment.cache_folder() is None
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": str(tmp_path)})
    assert environment.cache_folder() == tmp_path / "course_lib"
    for grader in ("COURSE_GRADING", "NBGRADER_EXECUTION", "PYTEST_CURRENT_TEST"):
        monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": str(tmp_path), grader: "1"})
        assert environment.cache_folder() is None
    monkeypatch.setattr(os, "environ", {"HOME": str(tmp_path), "XDG_CACHE_HOME": "relative"})
    monkeypatch.setattr(environment.sys, "platform", "linux")
    assert environment.cache_folder() == tmp_path / ".cache" / "course_lib"
    monkeypatch.setattr(environment.sys, "platform", "darwin")
    assert environment.cache_folder() == tmp_path / "Library" / "Caches" / "course_lib"
    monkeypatch.setattr(os, "environ", {"HOME": str(tmp_path), "COURSE_CACHE": "~/here"})
    assert environment.cache_folder() == tmp_path / "here"
