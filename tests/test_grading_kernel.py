"""The kernel that answers run in: what they print is read as it comes, and little of it is kept."""

import queue
import time

import pytest

from course_lib.grading.notebook_kernel import KEPT_CHARACTERS, Kernel, KernelDied

FLOOD = """
while True:
    try:
        print("x" * 1000)
    except BaseException:
        pass
"""


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    kernel = Kernel("python3", cwd=str(tmp_path))
    yield kernel
    kernel.stop()


def run(kernel, source, timeout=30):
    """Run a cell as nbval does; the messages it sees."""
    cell = kernel.execute_cell_input(source, allow_stdin=False)
    kernel.await_reply(cell, timeout=timeout)
    seen = []
    while True:
        seen.append(kernel.get_message("iopub", timeout=5))
        if seen[-1]["content"].get("execution_state") == "idle":
            return seen


def test_of_megabytes_the_end_is_kept(kernel):
    seen = run(kernel, "for i in range(50_000):\n    print('line', i, 'x' * 100)\nprint('the end')")
    assert len(kernel.printed) == KEPT_CHARACTERS
    assert kernel.printed.endswith("x\nthe end\n")
    assert {message["msg_type"] for message in seen} == {"status"}


def test_pictures_are_not_kept_and_exceptions_are_cut(kernel):
    seen = run(
        kernel, "from IPython.display import HTML, display\nfor i in range(50):\n    display(HTML('h' * 100_000))"
    )
    assert {message["msg_type"] for message in seen} == {"status"}
    seen = run(kernel, "raise ValueError('z' * 1_000_000)")
    (error,) = [message["content"] for message in seen if message["msg_type"] == "error"]
    assert error["ename"] == "ValueError" and error["evalue"] == "z" * KEPT_CHARACTERS
    assert kernel.printed == ""


def test_a_cell_that_prints_for_ever_ends_at_its_time(kernel):
    cell = kernel.execute_cell_input(FLOOD, allow_stdin=False)
    with pytest.raises(queue.Empty):
        kernel.await_reply(cell, timeout=2)
    began = time.monotonic()
    kernel.interrupt()
    with pytest.raises(queue.Empty):
        while True:
            kernel.get_message("iopub", timeout=2)
    assert time.monotonic() - began < 60, "it listened for as long as there was something to hear"
    assert 0 < len(kernel.printed) <= KEPT_CHARACTERS
    assert len(kernel._heard) < 10


def test_a_kernel_that_has_died_is_noticed(kernel):
    cell = kernel.execute_cell_input("import os\nos._exit(1)", allow_stdin=False)
    with pytest.raises(KernelDied):
        kernel.await_reply(cell, timeout=60)
