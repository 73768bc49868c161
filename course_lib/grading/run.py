"""A run of a notebook under nbval, in a process of its own that leaves no process behind."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import psutil

CLONE = pathlib.Path(__file__).resolve().parents[2]

stopping = threading.Event()  # when set, every run in progress ends its processes and raises Stopped


class Stopped(Exception):
    """The user wants to stop."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ran:
    """The results of a notebook's cells."""

    cells: dict[str, dict]  # by cell id, the records that watch.py describes
    in_time: bool  # False if it was stopped at the time limit
    log: str  # what pytest printed


def run(notebook: dict, *, cell_timeout: float, time_limit: float) -> Ran:
    """Run a notebook of nbformat 4: each cell for at most ``cell_timeout`` s, all for at most ``time_limit`` s.

    Everything happens in a temporary folder, which is deleted afterwards; every process that was started is ended.
    Raises Stopped.
    """
    with tempfile.TemporaryDirectory(prefix="course-grading-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        (folder / "notebook.ipynb").write_text(json.dumps(notebook))
        (folder / "pytest.ini").write_text("[pytest]\n")
        for part in ("tmp", "jupyter", "ipython"):
            (folder / part).mkdir()
        in_time = _pytest(folder, cell_timeout, time_limit)
        cells = _records(folder / "cells.jsonl")
        log = _end_of(folder / "log.txt")
    return Ran(cells=cells, in_time=in_time, log=log)


def _records(path: pathlib.Path) -> dict[str, dict]:
    text = path.read_text() if path.exists() else ""
    lines = text.rpartition("\n")[0].splitlines()  # without a last line that was cut off
    return {record["cell"]: record for record in map(json.loads, lines)}


def _end_of(path: pathlib.Path, most_bytes: int = 10_000) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - most_bytes))
        return file.read(most_bytes).decode(errors="replace")


def _pytest(folder: pathlib.Path, cell_timeout: float, time_limit: float) -> bool:
    """Run pytest in the folder; return False if it was stopped at the time limit."""
    deadline = time.monotonic() + time_limit
    command = [
        *(sys.executable, "-P", "-m", "pytest", "-q", "--color=no", "--noconftest"),
        *("-c", folder / "pytest.ini", "-p", "no:cacheprovider"),
        *("-p", "nbval.plugin", "-p", "course_lib.grading.watch"),
        *("--nbval-lax", "--nbval-current-env", f"--nbval-cell-timeout={cell_timeout:g}"),
        folder / "notebook.ipynb",
    ]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that Ctrl-C reaches only us; we end it ourselves
        )
        try:
            while process.poll() is None and time.monotonic() < deadline:
                if stopping.wait(0.05):
                    raise Stopped
            return process.poll() is not None
        finally:
            end_processes(folder)
            process.wait()


def _environment(folder: pathlib.Path) -> dict[str, str]:
    """Return our environment without pytest's settings, and with temporary files directed into the folder."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
    return kept | {
        "COURSE_GRADING": "1",
        "COURSE_PROGRESS": "0",
        "COURSE_CACHE": "0",  # a cached compiler answer may have been forged by the graded code
        "COURSE_GRADING_FOLDER": str(folder),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(CLONE),
        "TMPDIR": str(folder / "tmp"),
        "JUPYTER_RUNTIME_DIR": str(folder / "jupyter"),
        "IPYTHONDIR": str(folder / "ipython"),
    }


def end_processes(folder: pathlib.Path) -> None:
    """End every process that has the folder in its environment.

    A kernel has a session of its own, so no process group holds them all; but all inherit the environment.
    """
    for _ in range(5):  # repeatedly, because one may have started another meanwhile
        processes = [p for p in psutil.process_iter() if _belongs(p, folder)]
        if not processes:
            return
        for process in processes:
            try:
                process.kill()
            except psutil.Error:
                pass  # it has already ended
        psutil.wait_procs(processes, timeout=2)


def _belongs(process: psutil.Process, folder: pathlib.Path) -> bool:
    try:
        return process.environ().get("COURSE_GRADING_FOLDER") == str(folder)
    except (psutil.Error, OSError):
        return False  # another user's, or a zombie
