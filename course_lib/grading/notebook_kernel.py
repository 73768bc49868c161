"""nbval's kernel, hardened against answers that end their process or print endlessly.

nbval waits a cell's whole time for a dead kernel. It also keeps everything that a cell prints: an answer that printed
for 20 s and could not be interrupted took 14 GB and held it for four minutes. Here output is read as it arrives, and
only its end is kept.
"""

import queue
import subprocess
import time

import zmq
from nbval.kernel import RunningKernel, start_new_kernel

POLL_S = 0.5
KEPT_CHARACTERS = 10_000  # of what a cell prints, and of the text of an exception


class KernelDied(RuntimeError):
    """The kernel's process ended before the cell did."""


class Kernel(RunningKernel):
    """A running kernel. ``printed`` is the end of what the cell wrote to stdout, or displayed, as text.

    Of a cell's outputs nbval sees only the exception, because the exercise notebooks have no outputs to compare with.
    """

    def __init__(self, kernel_name: str, cwd: str | None = None, startup_timeout: float = 60):
        self.cell, self.printed, self._heard = "", "", []
        # Output that bypasses Python's streams would land in our log and could fill the disk.
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.km, self.kc = start_new_kernel(startup_timeout, kernel_name, cwd=cwd, **silent)
        self._ensure_iopub_up()

    def execute_cell_input(self, cell_input: str, allow_stdin: bool | None = None) -> str:
        self.printed, self._heard = "", []
        self.cell = super().execute_cell_input(cell_input, allow_stdin)
        return self.cell

    def await_reply(self, msg_id: str, timeout: float | None = None) -> None:
        """Wait for a cell to end, and read its output. Raise KernelDied, or queue.Empty after ``timeout`` s."""
        deadline = _deadline(timeout)
        while time.monotonic() < deadline:
            shell, iopub = self._ready(min(POLL_S, deadline - time.monotonic()))
            if iopub:
                self._listen()
            if shell and self.kc.get_shell_msg(timeout=0)["parent_header"].get("msg_id") == msg_id:
                return
            if not shell and not iopub and not self.is_alive():
                raise KernelDied("the kernel's process ended")
        raise queue.Empty

    def get_message(self, stream: str, timeout: float | None = None) -> dict:
        """Return the next message that is not output. Raise queue.Empty after ``timeout`` s, whatever the output."""
        assert stream == "iopub", stream
        deadline = _deadline(timeout)
        while not self._heard:
            remaining = deadline - time.monotonic()
            if remaining < 0:
                raise queue.Empty
            if self._ready(min(POLL_S, remaining))[1]:
                self._listen()
        return self._heard.pop(0)

    def _ready(self, seconds: float) -> tuple[bool, bool]:
        """Wait at most ``seconds`` for a message; return whether there is one on (shell, iopub)."""
        sockets = self.kc.shell_channel.socket, self.kc.iopub_channel.socket
        poller = zmq.Poller()
        for socket in sockets:
            poller.register(socket, zmq.POLLIN)
        ready = dict(poller.poll(1000 * max(seconds, 0)))
        return sockets[0] in ready, sockets[1] in ready

    def _listen(self) -> None:
        """Take one message from iopub: keep what is printed, and what nbval wants to see."""
        message = self.kc.get_iopub_msg(timeout=0)
        kind, content = message["msg_type"], message["content"]
        ours = message["parent_header"].get("msg_id") == self.cell
        if kind == "stream" and ours and content["name"] == "stdout":
            self.printed = (self.printed + content["text"])[-KEPT_CHARACTERS:]
        elif kind == "display_data" and ours:  # so that no answer gains by hiding from checks that a grader runs them
            self.printed = f"{self.printed}{content['data'].get('text/plain', '')}\n"[-KEPT_CHARACTERS:]
        elif kind == "error":
            content |= {"evalue": content["evalue"][:KEPT_CHARACTERS], "traceback": []}
        if kind in ("status", "error"):
            self._heard.append(message)


def _deadline(timeout: float | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + timeout
