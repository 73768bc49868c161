"""The parent's side of the compile worker: one warm child process, started when needed, replaced when it dies."""

import atexit
import json
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from course_lib.compiler import bundles

MEMORY_BYTES = 2 << 30
TIME_LIMIT_S = 20.0
_WORKER = pathlib.Path(__file__).with_name("worker.py")


class WorkerDied(RuntimeError):
    """The child ended, or was ended, without an answer. The message says which, for a learner."""


class Worker:
    """A warm child. ``simulate`` is fixed when libtpu loads, so there is one child for each of its two values."""

    def __init__(self, simulate: bool, memory_bytes: int):
        self.simulate = simulate
        self.memory_bytes = memory_bytes
        self.process: subprocess.Popen | None = None
        self.owner = 0  # the pid that started the child: a forked copy of us must not touch it

    def ask(self, topology: str, module: bytes, time_limit_s: float) -> dict:
        """{"ok", "error"} and what the dumps say. Raises WorkerDied after a crash or at the time limit."""
        self.start()
        try:
            header = json.dumps({"topology": topology, "bytes": len(module)}).encode() + b"\n"
            self.process.stdin.write(header + module)
            self.process.stdin.flush()
            answer = json.loads(self._read_line(time_limit_s))
            return {**answer, **bundles.read(self.dump)} if answer["ok"] else answer
        except BrokenPipeError:
            message = self._cause_of_death()
            self.stop()
            raise WorkerDied(message) from None
        except BaseException:  # a crash, the time limit or Ctrl-C: no orphan, and no half answer in the pipe
            self.stop()
            raise

    def start(self) -> None:
        """Start the child, unless it runs already."""
        if self.process is not None and self.owner == os.getpid() and self.process.poll() is None:
            return
        self.stop()
        self.dump = pathlib.Path(tempfile.mkdtemp(prefix="course-compile-"))
        self.answers, write_end = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-P", _WORKER, str(self.memory_bytes), str(write_end), self.dump],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(write_end,),
            start_new_session=True,  # Ctrl-C is for the notebook; we end the child ourselves
            env=os.environ | _environment(self.dump, self.simulate),
        )
        os.close(write_end)
        self.owner = os.getpid()

    def stop(self) -> None:
        """End the child, if it is ours."""
        if self.process is not None and self.owner == os.getpid():
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            os.close(self.answers)
            shutil.rmtree(self.dump, ignore_errors=True)
        self.process = None

    def _read_line(self, time_limit_s: float) -> bytes:
        deadline, line = time.monotonic() + time_limit_s, b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.answers, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise WorkerDied(f"the compiler gave no answer within {time_limit_s:g} s and was stopped")
                chunk = os.read(self.answers, 1 << 16)
                if not chunk:
                    raise WorkerDied(self._cause_of_death())
                line += chunk
        return line

    def _cause_of_death(self) -> str:
        code = self.process.wait()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
        return f"the compiler's process {how} (it may use {self.memory_bytes / 2**30:g} GiB of memory)"


def _environment(dump: pathlib.Path, simulate: bool) -> dict[str, str]:
    """What libtpu and JAX read when they load in the child."""
    flags = [
        f"--xla_jf_dump_to={dump}",
        "--xla_jf_dump_llo_text=true",
        f"--xla_jf_dump_llo_pass_label_regex={bundles.PASSES}",
    ]
    if simulate:
        flags.append(f"--xla_jf_dump_static_llo_profile_to={dump}")
    return {
        "LIBTPU_INIT_ARGS": " ".join(flags),
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # else two processes fight over a lock file
        "TPU_SKIP_MDS_QUERY": "1",  # no question to a metadata server that is not there
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_ACCELERATOR_TYPE": "v5litepod-1",
        "JAX_PLATFORMS": "cpu",  # a chip that is attached stays with the notebook
    }


_workers: dict[tuple[bool, int], Worker] = {}
_lock = threading.Lock()


def compile_module(topology: str, module: bytes, *, simulate: bool, time_limit_s: float, memory_bytes: int) -> dict:
    """Compile MLIR bytecode for a one-chip topology in the warm child. Raises WorkerDied."""
    with _lock:
        worker = _worker(simulate, memory_bytes)
        try:
            return worker.ask(topology, module, time_limit_s)
        except WorkerDied:
            worker.start()  # while the caller reads why, the next child warms up
            raise


def warm_up(*, simulate: bool = True, memory_bytes: int = MEMORY_BYTES) -> None:
    """Start the child now, so that the first verdict does not wait for Python to start."""
    with _lock:
        _worker(simulate, memory_bytes).start()


def _worker(simulate: bool, memory_bytes: int) -> Worker:
    return _workers.setdefault((simulate, memory_bytes), Worker(simulate, memory_bytes))


@atexit.register
def stop_all() -> None:
    """End every child of this process."""
    for worker in _workers.values():
        worker.stop()
