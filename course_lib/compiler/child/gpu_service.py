"""The parent's side of a compile for a GPU: what must be installed, the child, its limits, the files it leaves."""

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from course_lib.compiler.child import cache
from course_lib.compiler.child.service import WorkerDied, cause_of_death, last_words
from course_lib.compiler.dumps import ptxas

MEMORY_BYTES = 6 << 30
TIME_LIMIT_S = 120.0
_WORKER = pathlib.Path(__file__).with_name("gpu_worker.py")
_PARTS = ("jax-cuda13-plugin", "jax-cuda13-pjrt", "nvidia-cuda-nvcc", "nvidia-nvvm")

# Stands in for ptxas: keeps its input and its output, and exits with the status of ptxas.
_WATCHED_PTXAS = """\
#!/bin/sh
kept=
for given; do
    [ -f "$given" ] && head -c 4096 "$given" | grep -q '^\\.version' && cp "$given" "{folder}/$$.ptx" && kept=yes
done
[ "$kept" ] || exec "{ptxas}" "$@"
"{ptxas}" "$@" -v 2>"{folder}/$$.ptxas"
status=$?
cat "{folder}/$$.ptxas" >&2
exit $status
"""


def extra_folder() -> pathlib.Path | None:
    """Return where ``make setup-gpu`` has put the GPU compiler; None if it is missing or belongs to another JAX.

    It is beside the environment, not in it, because otherwise JAX would look for a GPU each time it starts.
    """
    for folder in (pathlib.Path(f"{sys.prefix}-gpu"), *map(pathlib.Path, sys.path)):
        if _versions(folder) and (folder / "nvidia/cu13/bin/ptxas").is_file():
            return folder
    return None


@functools.lru_cache
def _versions(folder: pathlib.Path) -> dict[str, str]:
    """Return the versions of the parts in a folder; {} unless all are there and fit this JAX."""
    found = {
        dist.name.lower().replace("_", "-"): dist.version for dist in importlib.metadata.distributions(path=[folder])
    }
    fits = found.get("jax-cuda13-plugin") == importlib.metadata.version("jaxlib")
    return {part: found[part] for part in _PARTS} if fits and all(part in found for part in _PARTS) else {}


def versions() -> str | None:
    """Return the versions that a figure depends on; None if nothing is installed."""
    folder = extra_folder()
    if folder is None:
        return None
    parts = _versions(folder)
    return f"jax-cuda13-plugin {parts['jax-cuda13-plugin']}, ptxas {parts['nvidia-cuda-nvcc']}"


def missing() -> str:
    """Say why there is no GPU compiler here, and what to do."""
    return (
        "the GPU compiler is not installed. It exists for Linux on x86-64, where `make setup-gpu` installs it beside "
        "the environment, without CUDA and without a GPU (270 MB to download)."
    )


def compile_module(config: str, module: bytes, *, time_limit_s: float, memory_bytes: int) -> dict:
    """Compile MLIR bytecode for the GPU that ``config`` describes, unless its answer is cached. Raises WorkerDied.

    The result is the worker's answer and, if the compile succeeded, "programs": what ptxas was given and said
    (``dumps.ptxas``). Each compile has its own child process.
    """
    key = cache.key(module, topology=config, settings=versions(), memory_bytes=memory_bytes)
    if (known := cache.get(key, _read)) is not None:
        return known
    answer = _compiled(config, module, time_limit_s, memory_bytes)
    if answer["ok"]:
        cache.put(key, answer | {"programs": [dataclasses.asdict(program) for program in answer["programs"]]})
    elif answer["stage"] == "compile":  # not if the compiler does not start, because next time it may
        cache.put(key, answer)
    return answer


def _read(answer: dict) -> dict:
    """Restore an answer from a cached file. Raises KeyError or TypeError if the file does not hold one."""
    return {"hlo": str(answer["hlo"]), "programs": tuple(ptxas.program(**plain) for plain in answer["programs"])}


def _compiled(config: str, module: bytes, time_limit_s: float, memory_bytes: int) -> dict:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="course-compile-gpu-"))
    try:
        answer = _asked(folder, config, module, time_limit_s, memory_bytes)
        return answer | {"programs": ptxas.read(folder)} if answer["ok"] else answer
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _asked(folder: pathlib.Path, config: str, module: bytes, time_limit_s: float, memory_bytes: int) -> dict:
    (folder / "config").write_text(config)
    said = folder / "answer"
    with (folder / "complaints").open("wb") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-P", _WORKER, str(memory_bytes), folder / "config", said],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            start_new_session=True,  # Ctrl-C is for the notebook; and ptxas ends with its parent
            env=os.environ | _environment(folder),
        )
    try:
        process.communicate(module, timeout=time_limit_s)
    except subprocess.TimeoutExpired:
        raise WorkerDied(f"the compiler gave no answer within {time_limit_s:g} s and was stopped") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if not said.is_file() and "LLVM ERROR" in (complaints := _complaints(folder)):  # LLVM refuses by aborting
        return {"ok": False, "stage": "compile", "error": complaints.strip()}
    if not said.is_file():
        error = WorkerDied(cause_of_death(process.returncode, memory_bytes))
        error.last_words = last_words((folder / "complaints").read_text(errors="replace"))
        raise error
    answer = json.loads(said.read_text())
    return answer if answer["ok"] else answer | {"error": answer["error"] + _complaints(folder)}


def _complaints(folder: pathlib.Path) -> str:
    """Return the errors that the passes wrote to stderr: their exception says only that they failed."""
    lines = (folder / "complaints").read_text(errors="replace").splitlines()
    return "".join(f"\n{line}" for line in lines if "error:" in line.lower())[:2000]


def _environment(folder: pathlib.Path) -> dict[str, str]:
    """Return the variables that XLA and Mosaic GPU read in the child, with our own toolkit in ``folder``."""
    extra = extra_folder()
    real, toolkit = extra / "nvidia/cu13", folder / "toolkit"
    (toolkit / "bin").mkdir(parents=True)
    (toolkit / "nvvm").symlink_to(real / "nvvm")
    watched = toolkit / "bin/ptxas"
    watched.write_text(_WATCHED_PTXAS.format(folder=folder, ptxas=real / "bin/ptxas"))
    watched.chmod(0o755)
    return {
        "PYTHONPATH": str(extra),
        "PATH": f"{toolkit / 'bin'}:{os.environ.get('PATH', os.defpath)}",
        "XLA_FLAGS": f"--xla_gpu_cuda_data_dir={toolkit} --xla_dump_to={folder} --xla_dump_hlo_as_text",
        "MOSAIC_GPU_DUMP_TO": str(folder),
        "MOSAIC_GPU_CUDA_ROOT": str(toolkit),
        "MOSAIC_GPU_RUNTIME_LIB_PATH": str(extra / "jax_cuda13_plugin/libmosaic_gpu_runtime.so"),
        "JAX_PLATFORMS": "cpu",  # an attached GPU stays with the notebook
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # no cuDNN and no driver here
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
