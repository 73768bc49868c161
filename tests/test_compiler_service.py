"""The children that run libtpu: many callers at once, crashes, hangs, Ctrl-C. None of it may change an answer."""

import functools
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import time
import warnings

import jax.numpy as jnp
import pytest
from conftest import needs_libtpu
from sample_kernels import VECTOR, add, array, by_rows, endless, gathered, matmul, pipelined_matmul, softmax
from sweeps import daily

from course_lib import compiler
from course_lib.compiler.child import idle, service

pytestmark = [needs_libtpu, pytest.mark.usefixtures("nothing_kept")]
HANG_LIMIT_S = 6


def bf16(*shape):
    return array(shape, jnp.bfloat16)


SQUARE = [bf16(512, 512)] * 2
ABORTS, HANGS = 3, 6
# Ten functions and their arguments: number 3 makes libtpu's simulator abort, number 6 makes it run for ever.
TEN = [
    (add, [VECTOR, VECTOR]),
    (functools.partial(matmul, blocks=(256, 256, 256)), SQUARE),
    (functools.partial(by_rows, softmax, rows=64), [array((512, 512))]),
    (gathered, [array((4096, 256)), array((512,), jnp.int32)]),
    (functools.partial(matmul, blocks=(256, 128, 512)), SQUARE),
    (functools.partial(pipelined_matmul, block=128), SQUARE),
    (endless, [array((8, 128))]),
    (functools.partial(by_rows, jnp.tanh, rows=8), [array((256, 1024))]),
    (functools.partial(matmul, blocks=(256, 256, 256)), [bf16(2048, 1024), bf16(1024, 2048)]),  # extrapolated
    (jnp.dot, SQUARE),
]


def _compiled(number: int) -> tuple:
    """What matters of one Report, as plain data that another process can send."""
    fn, args = TEN[number]
    limit = HANG_LIMIT_S if number == HANGS else None
    report = compiler.compile_tpu(fn, *args, time_limit_s=limit)
    return report.ok, report.cycles, report.bundles, report.hbm_bytes, report.vmem_bytes, report.notes


def _several(numbers: list[int]) -> dict[int, tuple]:
    return {number: _compiled(number) for number in numbers}


@pytest.mark.sweep  # every day one crashes alone, and in test_compiler_cache.py several processes compile at once
def test_ten_kernels_by_four_processes_at_once():
    """One aborts, one hangs; the other eight get the answers that they get alone."""
    alone = {number: _compiled(number) for number in range(10) if number not in (ABORTS, HANGS)}
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        together = {}
        for some in pool.map(_several, [[0, 4, 8], [1, 5, 9], [2, HANGS], [ABORTS, 7]], chunksize=1):
            together |= some
    assert len(together) == 10
    for number, answer in alone.items():
        assert together[number] == answer, f"number {number}"
        assert answer[0] and answer[1] > 0
    for number, why in ((ABORTS, "was ended by SIGABRT"), (HANGS, "")):
        ok, cycles, bundles, *_, notes = together[number]
        assert ok and cycles is None and bundles > 0, "it compiles, without cycles"
        assert "no cycles: with the simulator on, the compiler" in notes[0] and why in notes[0], notes


def test_after_a_crash_the_next_caller_gets_a_new_child():
    fn, args = TEN[ABORTS]
    service.warm_up()
    before = service._worker(True, service.MEMORY_BYTES).process.pid
    assert compiler.compile_tpu(fn, *args).cycles is None
    assert compiler.compile_tpu(add, VECTOR, VECTOR).cycles > 0
    assert service._worker(True, service.MEMORY_BYTES).process.pid != before


def test_a_child_that_nobody_asks_ends_and_the_next_caller_gets_a_new_one(monkeypatch):
    monkeypatch.setattr(idle, "LIMIT_S", 1.0)
    monkeypatch.setattr(idle, "_watcher", None)
    expected = compiler.compile_tpu(add, VECTOR, VECTOR).cycles
    worker = service._worker(True, service.MEMORY_BYTES)
    child = worker.process
    with worker.lock:  # as while it is at work
        idle._watcher.join(timeout=60)
        assert child.poll() is None
    idle.asked()
    idle._watcher.join(timeout=60)
    assert child.poll() is not None and worker.process is None
    assert compiler.compile_tpu(add, VECTOR, VECTOR).cycles == expected


def test_a_forked_process_has_children_of_its_own():
    """A fork shares our pipes; it must not read our answers, and not keep our children alive."""
    expected = compiler.compile_tpu(add, VECTOR, VECTOR).cycles
    ours = service._worker(True, service.MEMORY_BYTES).process
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX and Python warn of forks in a process with threads, and rightly
        pid = os.fork()
    if pid == 0:  # JAX itself is not safe here, so only the service is used
        code = 1
        try:
            service.warm_up()
            child = service._worker(True, service.MEMORY_BYTES).process
            code = 0 if child.pid != ours.pid else 2
            service.stop_all()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert ours.poll() is None, "our child lives on"
    assert compiler.compile_tpu(add, VECTOR, VECTOR).cycles == expected


@pytest.mark.parametrize(
    "share, ends_at",
    [(1.0, 20), (0.25, 80), (0.05, 200), (0.0, 22)],
    ids=["alone", "beside others", "beside very many", "it waits for ever"],
)
def test_the_limit_is_of_seconds_worked(share, ends_at, monkeypatch):
    """A clock that goes as we say, and a child that has had ``share`` of it."""
    now = [1000.0]
    monkeypatch.setattr(service.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(service, "_worked_s", lambda pid: 5 + share * (now[0] - 1000))
    limit = service._Limit(1, 20.0)
    now[0] += limit.left()
    while limit.longer():
        now[0] += limit.left()
    assert ends_at <= now[0] - 1000 <= ends_at + 2


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_seconds_worked_are_those_of_the_process():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", "print(sum(range(10**7))); input()"], **pipes) as busy:
        busy.stdout.readline()
        assert 0 < service._worked_s(busy.pid) < 1000
        busy.communicate(b"\n")
    assert service._worked_s(2**30) == float("inf")


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and their children
from sample_kernels import *
from course_lib import compiler
from course_lib.compiler.child import service
service.warm_up(); service.warm_up(simulate=False)
print(*(w.process.pid for w in service._workers.values()), flush=True)
try:
    {call}
    print("finished", flush=True)
except KeyboardInterrupt:
    print("interrupted", *(w.process.pid for w in service._workers.values() if w.process), flush=True)
    assert compiler.compile_tpu(add, VECTOR, VECTOR).ok
    print("works", flush=True)
"""


CALLS = {
    "in a simulation": "compiler.compile_tpu(endless, array((8, 128)), time_limit_s=100, memory_bytes=6 << 30)",
    "in one of two sizes": "[compiler.compile_tpu(matmul, *[array((4096,) * 2, jnp.bfloat16)] * 2) for _ in range(50)]",
}


@pytest.mark.parametrize("at_work", daily("in a simulation", of=CALLS))
def test_ctrl_c_leaves_no_orphan_and_the_next_compile_works(at_work):
    here = pathlib.Path(__file__).parent
    env = os.environ | {"PYTHONPATH": f"{here.parent}{os.pathsep}{here}"}
    code = INTERRUPTED.format(call=CALLS[at_work])
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) as process:
        children = [int(pid) for pid in process.stdout.readline().split()]
        assert len(children) == 2
        time.sleep(4)  # it is at work; if it is not yet, Ctrl-C is no easier for it
        process.send_signal(signal.SIGINT)
        said = process.stdout.readline().split()
        assert said[:1] == ["interrupted"], said
        children += [int(pid) for pid in said[1:]]
        assert process.stdout.readline() == "works\n"
    assert process.returncode == 0
    deadline = time.monotonic() + 30
    while any(_is_worker(pid) for pid in children):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.1)


def _is_worker(pid: int) -> bool:
    try:
        return b"worker.py" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
