"""The closed box itself: a command that starts Python with a read-only view of the course and nothing else.

bubblewrap gives it no network, no other process, a private /tmp of fixed size, and no way to become another user.
Memory and processes are limited by a control group if one can be made, and by the kernel's own limits otherwise.
"""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import subprocess
import sys

from course_lib.compiler.child import gpu_service

CLONE = pathlib.Path(__file__).resolve().parents[3]
INSTALL = "To get it, as root: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora)."
_COURSE = "/course"  # where the library is inside the box
_LESSONS = f"{_COURSE}/course_lib/lessons"


class NoBox(RuntimeError):
    """This machine cannot make a closed box. The message says why, and what to do."""


@functools.cache
def problem() -> str:
    """Return why there is no box here and what to do; "" if there is one."""
    if not sys.platform.startswith("linux"):
        return "A closed box needs Linux. Grade in a virtual machine or a container that has it."
    if shutil.which("bwrap") is None:
        return f"bubblewrap (bwrap) is not installed. {INSTALL}"
    try:
        tried = subprocess.run([*command(lessons=False), "-c", "print(1)"], capture_output=True, timeout=60, env={})
    except subprocess.TimeoutExpired:
        return "bubblewrap does not answer here."
    if tried.returncode == 0 and tried.stdout == b"1\n":
        return ""
    said = tried.stderr.decode(errors="replace").strip().splitlines()
    why = said[-1][:200] if said else f"exit status {tried.returncode}"
    return (
        f"bubblewrap cannot make a box here: {why}. It needs user namespaces: on Ubuntu, as root, sysctl -w "
        "kernel.apparmor_restrict_unprivileged_userns=0; in a container, start it with --privileged."
    )


def command(*, lessons: bool, disk_bytes: int = 1 << 20) -> list[str]:
    """Return the command that starts Python in a box; append Python's own arguments to it.

    ``lessons`` says whether the declarations of the exercises are visible. They hold the answers, so they are hidden
    where a student's code runs. ``disk_bytes`` is the size of /tmp, which is memory.
    """
    library = CLONE / "course_lib"
    files = [(path, path) for path in ("/usr", sys.base_prefix, sys.prefix)] + [(library, f"{_COURSE}/course_lib")]
    files += [(path, path) for path in ("/etc/ld.so.cache", "/etc/alternatives") if os.path.exists(path)]
    if lessons:
        files.append(("/sys", "/sys"))  # libtpu reads the list of processors from it, and aborts without it
        gpu = gpu_service.extra_folder()  # the GPU's compiler, beside the environment
        files += [] if gpu is None else [(gpu, gpu)]
    links = [("usr/lib", "/lib"), ("usr/lib64", "/lib64"), ("usr/bin", "/bin")]
    environment = {
        "HOME": "/tmp", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONPATH": _COURSE,
        "JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "jax", "MPLBACKEND": "agg", "COURSE_GRADING": "1",
        "COURSE_PROGRESS": "0", "COURSE_RECORD": "0", "COURSE_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "3",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    if not lessons:  # a judge's compilers reject these flags
        environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return [
        shutil.which("bwrap"), "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
        "--cap-drop", "ALL", "--hostname", "box", "--uid", "1000", "--gid", "1000", *_no_more_namespaces(),
        "--proc", "/proc", "--dev", "/dev", "--size", str(disk_bytes), "--tmpfs", "/tmp",
        *[word for there, here in files for word in ("--ro-bind", str(there), str(here))],
        *[word for target, link in links if os.path.islink(link) for word in ("--symlink", target, link)],
        *([] if lessons else ["--size", "4096", "--tmpfs", _LESSONS, "--remount-ro", _LESSONS]),
        *[word for name, value in environment.items() for word in ("--setenv", name, value)],
        "--chdir", "/tmp", "--", os.path.join(sys.prefix, "bin", "python"), "-P", "-s", "-B",
    ]  # fmt: skip


@functools.cache
def _no_more_namespaces() -> tuple[str, ...]:
    said = subprocess.run([shutil.which("bwrap"), "--help"], capture_output=True, text=True).stdout
    return ("--disable-userns",) if "--disable-userns" in said else ()
