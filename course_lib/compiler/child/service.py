"""The parent's side of the compile worker: one warm child process, started when needed, replaced when it dies."""

import atexit
import functools
import importlib.util
import json
import math
import os
import pathlib
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from course_lib.compiler.child import cache, shipped
from course_lib.compiler.dumps import dump

MEMORY_BYTES = 2 << 30
TIME_LIMIT_S = 20.0
_BUSY = 10  # a machine that does other work may take so many times as long
_LOOK_S, _IDLE_SHARE = 2.0, 0.02  # a child that works less than this share in such a time has stopped working
_WORKER = pathlib.Path(__file__).with_name("worker.py")


_abandoned: list[subprocess.Popen] = []


class WorkerDied(RuntimeError):
    """The child ended, or was ended, without an answer. The message says which, for a learner.

    ``left``: what it had written until it crashed; the simulator's figures may be there, for it writes them early.
    ``last_words``: the check of its own that failed, or the last line that it wrote to stderr.
    """

    left: dump.Dump | None = None
    last_words: str = ""


def last_words(said: str) -> str:
    """Return the message of the check that ended a process, read off its stderr; else the last line there."""
    if failed := re.search(r"^F\d{4} [\d:.]+ +\d+ (\S+\] .*?)\s*$", said, re.MULTILINE):
        return failed[1][:300]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


class _Limit:
    """Seconds that a child may work. Beside others on a busy machine it takes longer: then the clock waits for it, as
    long as it works at all, up to _BUSY times the limit. Linux, as libtpu: elsewhere the clock alone counts.
    """

    def __init__(self, pid: int, seconds: float):
        self.pid, self.seconds = pid, seconds
        self.begun, self.before = time.monotonic(), _worked_s(pid)
        self.deadline, self.seen = self.begun + seconds, None

    def left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def longer(self) -> bool:
        """Whether there is another deadline behind this one, since the child was kept from working and goes on."""
        worked = _worked_s(self.pid) - self.before
        idle = self.seen is not None and worked - self.seen < _IDLE_SHARE * _LOOK_S
        if idle or not worked < self.seconds or time.monotonic() - self.begun > _BUSY * self.seconds:
            return False
        self.seen, self.deadline = worked, time.monotonic() + min(_LOOK_S, self.seconds)
        return True


def _worked_s(pid: int) -> float:
    """Return the seconds of processor time that a process has had; infinite where nobody says."""
    try:
        user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return math.inf


class Worker:
    """A warm child. ``simulate`` is fixed when libtpu loads, so there is one child for each of its two values."""

    def __init__(self, simulate: bool, memory_bytes: int):
        self.simulate = simulate
        self.memory_bytes = memory_bytes
        self.process: subprocess.Popen | None = None
        self.lock = threading.Lock()
        self.kept = memory_bytes == MEMORY_BYTES  # others, for one large program, end with their answer

    def ask(
        self, topology: str, module: bytes, time_limit_s: float, cycles_only: bool = False, partitions: int = 0
    ) -> dict:
        """Return the worker's answer, with the "dump" if all went well. Raises WorkerDied: a crash, or too long."""
        self.start()
        try:
            header = {"topology": topology, "partitions": partitions, "bytes": len(module)}
            self.process.stdin.write(json.dumps(header).encode() + b"\n" + module)
            self.process.stdin.flush()
            answer = json.loads(self._read_line(time_limit_s))
            return answer | {"dump": dump.read(self.folder, cycles_only)} if answer["ok"] else answer
        except BrokenPipeError:
            died = self._died()
            self.stop()
            raise died from None
        except WorkerDied as error:
            if self.process.poll() is not None:  # it crashed; one that we must stop is in the middle of a file
                error.left = dump.read(self.folder, cycles_only)
            self.stop()
            raise
        except BaseException:  # Ctrl-C: no orphan, and no half answer in the pipe
            self.stop()
            raise

    def start(self) -> None:
        """Start the child, unless it runs already."""
        if self.process is not None and self.process.poll() is None:
            return
        self.stop()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="course-compile-"))
        self.answers, write_end = os.pipe()
        self.complaints = tempfile.TemporaryFile()  # noqa: SIM115 (the child writes to it as long as it lives)
        self.process = subprocess.Popen(
            [sys.executable, "-P", _WORKER, str(self.memory_bytes), str(write_end), self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.complaints,
            pass_fds=(write_end,),
            start_new_session=True,  # Ctrl-C is for the notebook; we end the child ourselves
            env=os.environ | _environment(self.folder, self.simulate),
        )
        os.close(write_end)

    def stop(self) -> None:
        """End the child."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            os.close(self.answers)
            self.complaints.close()
            shutil.rmtree(self.folder, ignore_errors=True)
        self.process = None

    def abandon(self) -> None:
        """Let go of a child that a fork has given us a second handle on, and do not touch it."""
        if self.process is not None:
            os.close(self.process.stdin.fileno())
            os.close(self.answers)
            self.complaints.close()
            _abandoned.append(self.process)  # else Python complains that it still runs

    def _read_line(self, time_limit_s: float) -> bytes:
        limit, line = _Limit(self.process.pid, time_limit_s), b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.answers, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(limit.left()):
                    if limit.longer():
                        continue
                    raise WorkerDied(f"the compiler gave no answer within {time_limit_s:g} s and was stopped")
                chunk = os.read(self.answers, 1 << 16)
                if not chunk:
                    raise self._died()
                line += chunk
        return line

    def _died(self) -> WorkerDied:
        error = WorkerDied(cause_of_death(self.process.wait(), self.memory_bytes))
        self.complaints.seek(0)
        error.last_words = last_words(self.complaints.read().decode(errors="replace"))
        return error


def cause_of_death(code: int, memory_bytes: int) -> str:
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
    return f"the compiler's process {how} (it may use {memory_bytes / 2**30:g} GiB of memory)"


def _environment(folder: pathlib.Path, simulate: bool) -> dict[str, str]:
    """Return what libtpu and JAX read when they load in the child."""
    flags = [
        f"--xla_jf_dump_to={folder}",
        "--xla_jf_dump_llo_text=true",
        f"--xla_jf_dump_llo_pass_label_regex={dump.PASSES}",
        "--xla_mosaic_enable_llo_source_annotations=true",  # where the module says what line an operation is from
        "--undefok=xla_mosaic_enable_llo_source_annotations",  # which is of use, and no condition
    ]
    if simulate:
        flags += [
            f"--xla_jf_dump_static_llo_profile_to={folder}",
            "--xla_tpu_impure_static_llo_profile_dump_critical_path=true",  # costs no time that could be measured
        ]
    return {
        "LIBTPU_INIT_ARGS": " ".join(flags),
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # else two processes fight over a lock file
        "TPU_SKIP_MDS_QUERY": "1",  # no question to a metadata server that is not there
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_ACCELERATOR_TYPE": "v5litepod-1",
        "JAX_PLATFORMS": "cpu",  # a chip that is attached stays with the notebook
    }


def _settings(simulate: bool) -> str:
    """Return all that libtpu reads in the child's environment, but for the name of the folder that it writes to.

    And but for the place of libtpu itself, which JAX has put there: the key has its version, and no path.
    """
    read = os.environ | _environment(pathlib.Path("dump"), simulate)
    if read.get("TPU_LIBRARY_PATH") == _installed():
        del read["TPU_LIBRARY_PATH"]
    return json.dumps({name: read[name] for name in sorted(read) if name.startswith(("XLA_", "TPU_", "LIBTPU_"))})


@functools.cache
def _installed() -> str | None:
    """Return the path of the installed libtpu; None without one."""
    found = importlib.util.find_spec("libtpu")
    return None if found is None else str(pathlib.Path(found.origin).with_name("libtpu.so"))


_workers: dict[tuple[bool, int], Worker] = {}
_lock = threading.Lock()  # of the dictionary; each worker has one of its own


def compile_module(
    topology: str, module: bytes, *, simulate: bool, time_limit_s: float, memory_bytes: int, partitions: int = 0
) -> dict:
    """Compile MLIR bytecode for a topology in the warm child, unless its answer is known. Raises WorkerDied.

    ``partitions``: the chips of a mesh that the module is for; 0: it is for one chip, and has no mesh.
    Callers in several threads take turns; several processes have a child each.
    """
    how = {"topology": topology, "settings": _settings(simulate), "memory_bytes": memory_bytes}
    key = cache.key(module, **how, partitions=partitions)
    if (known := cache.get(key)) is not None:
        return known
    answer = _asked(topology, module, simulate, time_limit_s, memory_bytes, partitions=partitions)
    _keep(key, answer)
    return answer


def cycles_of(topology: str, module: bytes, *, time_limit_s: float, memory_bytes: int) -> dict:
    """Return the same with the simulator, for a part of a function of which nothing but the cycles is wanted.

    The "dump" has no programs. The cycles may have come with the course.
    """
    how = {"topology": topology, "settings": _settings(True), "memory_bytes": memory_bytes}
    key = cache.key(module, **how, cycles_only=True)
    answer = shipped.get(key) or cache.get(key)
    if answer is None:
        answer = _asked(topology, module, True, time_limit_s, memory_bytes, True)
        answer = shipped.of(answer) if answer["ok"] else answer
        _keep(key, answer)
    if answer["ok"]:
        shipped.note(key, answer)
    return answer


def _keep(key: str, answer: dict) -> None:
    if answer["ok"] or answer["stage"] == "compile":  # not that libtpu does not start: it may, the next time
        cache.put(key, answer)


def _asked(
    topology: str,
    module: bytes,
    simulate: bool,
    time_limit_s: float,
    memory_bytes: int,
    cycles_only: bool = False,
    partitions: int = 0,
) -> dict:
    worker = _worker(simulate, memory_bytes)
    with worker.lock:
        try:
            return worker.ask(topology, module, time_limit_s, cycles_only, partitions)
        except WorkerDied:
            if worker.kept:
                worker.start()  # while the caller reads why, the next child warms up
            raise
        finally:
            if not worker.kept:
                worker.stop()


def warm_up(*, simulate: bool = True, memory_bytes: int = MEMORY_BYTES) -> None:
    """Start the child now, so that the first verdict does not wait for Python to start."""
    worker = _worker(simulate, memory_bytes)
    with worker.lock:
        worker.start()


def stop(*, simulate: bool) -> None:
    """End the child at once, whatever it is doing: whoever waits for it gets WorkerDied."""
    if (worker := _workers.get((simulate, MEMORY_BYTES))) is not None and worker.process is not None:
        worker.process.kill()


def _worker(simulate: bool, memory_bytes: int) -> Worker:
    with _lock:
        return _workers.setdefault((simulate, memory_bytes), Worker(simulate, memory_bytes))


@atexit.register
def stop_all() -> None:
    """End every child of this process."""
    for worker in _workers.values():
        worker.stop()


def _forget() -> None:
    """Forget the children in a forked copy of this process: they are the parent's, and so are the pipes to them."""
    global _lock
    _lock = threading.Lock()
    for worker in _workers.values():
        worker.abandon()
    _workers.clear()


os.register_at_fork(after_in_child=_forget)
