"""The parent's side of a compile for SparseCores whose programs libtpu writes down."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from course_lib.compiler.child import cache
from course_lib.compiler.child.service import MEMORY_BYTES, WorkerDied, cause_of_death, last_words

TIME_LIMIT_S = 60.0
_WORKER = pathlib.Path(__file__).with_name("listing_worker.py")
_ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "JAX_PLATFORMS": "cpu",  # a chip that is attached stays with the notebook
}
_FILE = re.compile(r"(?P<op>.*)_(?P<time>\d+)_bundles\.txt")
_RUNTIME = "sc-start"  # the runtime's own frame around the kernels


def compile_module(topology: str, module: bytes) -> dict:
    """Compile MLIR bytecode for a topology, unless its answer is known. Raises WorkerDied.

    The result is the worker's answer and, if it is ok, "listings": the text of each program that runs on SparseCores,
    by the name of its op, in the order in which they were compiled.
    """
    key = cache.key(module, topology=topology, settings="SparseCore bundles", memory_bytes=MEMORY_BYTES)
    if (known := cache.get(key, _read)) is not None:
        return known
    with tempfile.TemporaryDirectory(prefix="course-listing-") as folder:
        answer = _asked(pathlib.Path(folder), topology, module)
    if answer["ok"] or answer["stage"] == "compile":
        cache.put(key, answer)
    return answer


def _read(answer: dict) -> dict:
    """Restore an answer from a cached file. Raises KeyError if the file does not hold one."""
    return {name: answer[name] for name in ("hlo", "code_bytes", "listings")}


def _asked(folder: pathlib.Path, topology: str, module: bytes) -> dict:
    said, programs = folder / "answer", folder / "programs"
    programs.mkdir()
    with (folder / "complaints").open("wb") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-P", _WORKER, str(MEMORY_BYTES), topology, said],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            start_new_session=True,  # Ctrl-C is for the notebook; we end the child ourselves
            env=os.environ | _ENVIRONMENT | {"LIBTPU_INIT_ARGS": f"--xla_sc_dump_bundles_to={programs}"},
        )
    try:
        process.communicate(module, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise WorkerDied(f"the compiler gave no answer within {TIME_LIMIT_S:g} s and was stopped") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if not said.is_file():
        error = WorkerDied(cause_of_death(process.returncode, MEMORY_BYTES))
        error.last_words = last_words((folder / "complaints").read_text(errors="replace"))
        raise error
    answer = json.loads(said.read_text())
    return answer | {"listings": _listings(programs)} if answer["ok"] else answer


def _listings(folder: pathlib.Path) -> dict[str, str]:
    found = [match for file in folder.iterdir() if (match := _FILE.fullmatch(file.name))]
    ours = sorted((m for m in found if not m["op"].startswith(_RUNTIME)), key=lambda m: int(m["time"]))
    return {match["op"]: (folder / match[0]).read_text(errors="replace") for match in ours}
