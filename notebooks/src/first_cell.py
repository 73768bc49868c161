# @title Run me first. After a restart, run this cell again.
import importlib.util
import os
import pathlib
import subprocess
import sys

# `make colab` fills in where pip finds the course, `make build` the versions it needs.
SOURCE = os.environ.get("COURSE_SOURCE", "")
PINS = []

folders = [pathlib.Path.cwd(), *pathlib.Path.cwd().parents]
clone = next((f for f in folders if (f / "course_lib" / "__init__.py").is_file()), None)
if importlib.util.find_spec("course_lib") is None and clone:
    sys.path.insert(0, str(clone))
elif importlib.util.find_spec("course_lib") is None and SOURCE:
    print("Installing the course and its JAX (about a minute) ...")
    on_tpu = any(pathlib.Path("/dev").glob("accel*")) or any(
        pathlib.Path("/dev").glob("vfio/[0-9]*")
    )
    wanted = [pin.replace("jax==", "jax[tpu]==") if on_tpu else pin for pin in PINS]
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        *wanted,
        f"course_lib[keras] @ {SOURCE}",
    ]
    if subprocess.run(install).returncode:
        raise SystemExit(
            "The course could not be installed. Is there a network? Run this cell again."
        )
    importlib.invalidate_caches()
    if "jax" in sys.modules and f"jax=={sys.modules['jax'].__version__}" not in PINS:
        raise SystemExit(
            "Another JAX was loaded before this cell. Choose Runtime, Restart session, and run me again."
        )
elif importlib.util.find_spec("course_lib") is None:
    raise SystemExit(
        "course_lib is not here. Open this notebook inside a clone of the course (make lab), or set COURSE_SOURCE "
        'to where pip finds it, for example COURSE_SOURCE="git+file:///path/to/the/clone", and run me again.'
    )

from course_lib import checks

checks.start()
