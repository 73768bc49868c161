"""A pytest plugin beside nbval: writes down what each cell did, stops where the kernel was lost.

nbval alone waits a cell's whole time for a kernel that is dead, and then runs on without one. The
records go to cells.jsonl in the folder COURSE_GRADING_FOLDER, a line for each cell as it ends, so
that they are there even if pytest itself is stopped:

    cell     its id
    ok       it ran without an exception
    ename    the exception's class and text, as the kernel sent them
    evalue
    lost     "" | "time": stopped at its time limit | "died": the kernel's process has ended
    printed  what it wrote to stdout, the last 10,000 characters
    problem  the failure of nbval or of the kernel's start, if it was one of theirs
"""

import json
import os
import pathlib
import queue
import time

import pytest
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell, NbCellError

POLL_S = 0.5
PRINTED_CHARACTERS = 10_000


class KernelDied(RuntimeError):
    """The kernel's process ended before the cell did."""


_await_reply = RunningKernel.await_reply


def _await_reply_or_death(self, msg_id, timeout=None):
    """nbval's wait for a cell to end, in slices: raises KernelDied once the process has ended."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            return _await_reply(self, msg_id, timeout=POLL_S)
        except queue.Empty:
            if not self.is_alive():
                raise KernelDied("the kernel's process ended") from None
            if deadline is not None and time.monotonic() > deadline:
                raise


RunningKernel.await_reply = _await_reply_or_death


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" or (call.when == "setup" and call.excinfo is not None):
        record = _record(item, call.excinfo.value if call.excinfo else None)
        with (pathlib.Path(os.environ["COURSE_GRADING_FOLDER"]) / "cells.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
        if record["lost"]:
            item.session.shouldstop = f"the kernel was lost in cell {record['cell']}"
    return report


def _record(item: IPyNbCell, failure: BaseException | None) -> dict:
    outputs = item.test_outputs or []
    error = next((o for o in outputs if o.output_type == "error"), {})
    printed = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")
    lost = "died" if isinstance(failure, KernelDied) else "time" if item.parent.timed_out else ""
    return {
        "cell": item.cell["id"],
        "ok": failure is None,
        "ename": error.get("ename", ""),
        "evalue": error.get("evalue", ""),
        "lost": lost,
        "printed": printed[-PRINTED_CHARACTERS:],
        "problem": "" if failure is None or isinstance(failure, NbCellError) else str(failure),
    }
