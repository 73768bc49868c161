"""A control group for each box: it limits memory and processes, and can end all of them.

With cgroup version 1, root creates the folders where they are writable; with version 2, the group is created below
ours, if that was delegated to us. If neither is possible there is no group, and only the kernel's own limits apply.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import secrets
import signal
import time

_ROOT = pathlib.Path("/sys/fs/cgroup")
_ONE = 100_000  # microseconds of each 100 ms: one processor, so that others keep theirs


class Group:
    """A control group, or none: ``held`` says whether memory and processes are limited."""

    def __init__(self, memory_bytes: int, processes: int):
        self.folders: list[pathlib.Path] = []
        name = f"course-{os.getpid()}-{secrets.token_hex(4)}"
        _take_away_old_ones()
        ours = _ours()
        limits = {"memory.max": memory_bytes, "memory.swap.max": 0, "pids.max": processes, "cpu.max": f"{_ONE} {_ONE}"}
        if (_ROOT / "cgroup.controllers").exists():
            self._make(_ROOT / ours.get("", "").strip("/") / name, limits)
        else:
            self._make(_ROOT / "memory" / name, {"memory.limit_in_bytes": memory_bytes})
            self._make(_ROOT / "pids" / name, {"pids.max": processes})
            self._make(_ROOT / "cpu" / name, {"cpu.cfs_period_us": _ONE, "cpu.cfs_quota_us": _ONE})

    def _make(self, folder: pathlib.Path, limits: dict[str, int]) -> None:
        try:
            folder.mkdir()
        except OSError:
            return
        try:
            for file, most in limits.items():
                with contextlib.suppress(FileNotFoundError):
                    (folder / file).write_text(str(most))
            self.folders.append(folder)
        except OSError:
            with contextlib.suppress(OSError):
                folder.rmdir()

    @property
    def held(self) -> bool:
        return bool(self.folders)

    @property
    def files(self) -> list[pathlib.Path]:
        """The files to which a process writes its id, or 0 for itself, to join the group."""
        return [folder / "cgroup.procs" for folder in self.folders]

    def end(self) -> None:
        """Kill everything in the group until nothing is left, and remove it."""
        for _ in range(200):
            inside = self._inside()
            if not inside:
                break
            for process in inside:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.01)
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        self.folders = []

    def _inside(self) -> set[int]:
        found: set[int] = set()
        for folder in self.folders:
            with contextlib.suppress(OSError):
                found |= set(map(int, (folder / "cgroup.procs").read_text().split()))
        return found


@functools.cache
def _take_away_old_ones() -> None:
    """Remove the groups of runs that were killed; they are empty."""
    for folder in (*_ROOT.glob("course-*"), *_ROOT.glob("*/course-*")):
        number = folder.name.split("-")[1]
        if number.isdigit() and not pathlib.Path(f"/proc/{number}").exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _ours() -> dict[str, str]:
    """Return {controller: our group}; version 2 is listed under ""."""
    lines = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
    return {controllers: group for _, controllers, group in lines}
