"""A process in a box, with resource limits, that answers over pipes and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

from course_lib.grading.box import bwrap, groups, pipes, values
from course_lib.grading.box.limits import Limits
from course_lib.grading.box.pipes import Lost

START_S = 120.0  # on a busy machine importing JAX takes long


class Process:
    """A module of this package as a program in a box. It sends ["ready"] once, and then answers."""

    def __init__(self, module: str, *words: str, limits: Limits, lessons: bool):
        self.group = groups.Group(limits.memory_bytes, limits.processes)
        python = bwrap.command(lessons=lessons, disk_bytes=limits.disk_bytes)
        command = [*limits.command(self.group.files), *python, "-m", f"course_lib.grading.box.{module}", *words]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"PATH": _PATH},
            cwd="/", start_new_session=True,
        )  # fmt: skip
        for stream in (self.process.stdin, self.process.stdout):
            os.set_blocking(stream.fileno(), False)
        self.ready = False

    def ask(self, node: object, deadline: float) -> bytes:
        """Send a node and return the answer as raw bytes. Raise Lost."""
        self.send(node, deadline)
        return self.receive(deadline)

    def send(self, node: object, deadline: float) -> None:
        self.started()
        data = node if isinstance(node, bytes) else values.dumps(node)
        pipes.send(self.process.stdin.fileno(), data, deadline)

    def receive(self, deadline: float) -> bytes:
        return pipes.receive(self.process.stdout.fileno(), deadline)

    def started(self) -> None:
        """Wait until it has reported that it is ready. Raise Lost."""
        if not self.ready:
            self.receive(time.monotonic() + START_S)  # counted from now: its message may have been waiting for long
            self.ready = True

    def end(self) -> None:
        """Kill it and everything it has started. Bubblewrap takes the whole namespace with it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.group.end()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                stream.close()


_PATH = "/usr/bin:/bin"
__all__ = ["Lost", "Process"]
