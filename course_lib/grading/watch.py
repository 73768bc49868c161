"""A pytest plugin beside nbval that records the result of each cell, and stops if the kernel is lost.

nbval alone would run on without a kernel. The records go to cells.jsonl in the folder COURSE_GRADING_FOLDER, one line
per cell as it ends, so that they survive even if pytest itself is stopped:

    cell     its id
    ok       it ran without an exception
    ename    the exception's class and text, as the kernel sent them
    evalue
    lost     "" | "time": stopped at its time limit | "died": the kernel's process has ended
    printed  the end of what it wrote to stdout
    problem  the failure of nbval or of the kernel's start, if there was one
"""

import json
import os
import pathlib

import nbval.plugin
import pytest
from nbval.plugin import IPyNbCell, NbCellError

from course_lib.grading.notebook_kernel import Kernel, KernelDied

nbval.plugin.RunningKernel = Kernel


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
    error = next((o for o in item.test_outputs or [] if o.output_type == "error"), {})
    lost = "died" if isinstance(failure, KernelDied) else "time" if item.parent.timed_out else ""
    return {
        "cell": item.cell["id"],
        "ok": failure is None,
        "ename": error.get("ename", ""),
        "evalue": error.get("evalue", ""),
        "lost": lost,
        "printed": item.parent.kernel.printed if item.parent.kernel else "",
        "problem": "" if failure is None or isinstance(failure, NbCellError) else str(failure),
    }
