"""Cached answers of a compiler's child, so that no program is compiled and simulated twice.

The key covers all that an answer depends on: the program as MLIR bytecode, the chip's topology, the environment
variables that the compiler reads (including whether to simulate), the memory it may use, the versions of libtpu and
jaxlib, and the code here that reads the compiler's output. What is kept is the parsed result, not the compiler's own
files: it is a hundred times smaller and need not be parsed again. Only answers are kept. A crash or a timeout says
something about this machine at this moment, so the child is asked again.

Each file is written under a temporary name and renamed, so several processes may read and write freely. A file that
cannot be read counts as missing and is removed; if nothing can be written, nothing is kept, and the work goes on. The
files hold JSON, which cannot execute anything. They are in ``environment.cache_folder()``, in ``compiled``; once they
exceed MOST_BYTES, the least recently used go.
"""

import collections
import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import tempfile
import zlib
from collections.abc import Callable

from course_lib import environment
from course_lib.compiler.dumps import stored

MOST_BYTES = 512 << 20
_READ_CYCLES = ("child/service.py", "child/worker.py", "dumps/critical_path.py", "dumps/dump.py")
_MOST_TEXT = 1 << 30  # of one file, unpacked: a longer one is not ours

counts: collections.Counter[str] = collections.Counter()  # of this process: "hits", and "misses" for lack of a file


def key(
    module: bytes, *, topology: str, settings: str, memory_bytes: int, cycles_only: bool = False, partitions: int = 0
) -> str:
    """Return the name of an answer, 64 hexadecimal digits. ``settings``: everything else that the compiler reads."""
    digest = hashlib.sha256()
    by = reader_of_cycles() if cycles_only else reader()
    machine = f"{topology} in {partitions} partitions" if partitions else topology
    for part in (module, machine.encode(), settings.encode(), str(memory_bytes).encode(), _versions(), by):
        digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()


def of_tpu(answer: dict) -> dict:
    """Restore libtpu's answer from a file's content. Raises KeyError, TypeError or ValueError if it is not one."""
    kept = {"hlo": str(answer["hlo"]), "code_bytes": int(answer["code_bytes"])}
    return kept | {"dump": stored.dump(answer["dump"])}


def get(key: str, read: Callable[[dict], dict] = of_tpu) -> dict | None:
    """Return the answer that is kept under ``key``; None if there is none.

    ``read`` restores an answer from its plain form; if it raises an error, the file is damaged.
    """
    if (folder := _folder()) is None:
        return None
    file = folder / key
    answer = _read(file, read)
    counts["misses" if answer is None else "hits"] += 1
    if answer is not None:
        with contextlib.suppress(OSError):
            os.utime(file)  # the oldest go first, and this one has just been used
    return answer


def put(key: str, answer: dict) -> None:
    """Keep an answer that JSON can hold (libtpu's "dump" is converted) if there is a folder to write to."""
    if (folder := _folder()) is None:
        return
    plain = answer | {"dump": stored.plain(answer["dump"])} if "dump" in answer else answer
    packed = zlib.compress(json.dumps(plain).encode(), level=3)
    with contextlib.suppress(OSError):  # no such folder, not ours, full
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(folder / key, packed)
        _make_room(folder)


def _folder() -> pathlib.Path | None:
    folder = environment.cache_folder()
    return None if folder is None else folder / "compiled"


def _read(file: pathlib.Path, read: Callable[[dict], dict]) -> dict | None:
    """Return the answer in a file; None if there is none, or if it is damaged, in which case it is removed."""
    try:
        packed = file.read_bytes()
    except OSError:
        return None
    try:
        return _understood(packed, read)
    except Exception:  # a damaged file may raise anything
        with contextlib.suppress(OSError):
            file.unlink()
        return None


def _understood(packed: bytes, read: Callable[[dict], dict]) -> dict:
    """Return the answer in a packed file. Raises ValueError, zlib.error, KeyError or others if it is damaged."""
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(packed, _MOST_TEXT)
    if not unpacking.eof:
        raise ValueError("cut off, or too long")
    answer = json.loads(text)
    if answer["ok"] is True:
        return {"ok": True} | read(answer)
    if answer["ok"] is False and answer["stage"] == "compile":
        return {"ok": False, "stage": "compile", "error": str(answer["error"])}
    raise ValueError("no answer that is kept")


def _write(file: pathlib.Path, packed: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=".new-", dir=file.parent)
    try:
        with open(handle, "wb") as new:
            new.write(packed)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise


def _make_room(folder: pathlib.Path) -> None:
    """Remove the least recently used files until the rest is small enough."""
    files = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # another process makes room too
            files.append((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path))
    surplus = sum(size for _, size, _ in files) - MOST_BYTES
    for _, size, path in sorted(files):
        if surplus <= 0:
            return
        pathlib.Path(path).unlink(missing_ok=True)
        surplus -= size


@functools.cache
def _versions() -> bytes:
    found = {name: None for name in ("libtpu", "jaxlib")}
    for name in found:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # a GPU's compiler does not need libtpu
            found[name] = importlib.metadata.version(name)
    return ", ".join(f"{name} {version}" for name, version in found.items()).encode()


@functools.cache
def reader() -> bytes:
    """Return a digest of the code that asks the compiler and reads its output, since older code may have been wrong."""
    compiler = pathlib.Path(__file__).parents[1]
    digest = hashlib.sha256((compiler / "report.py").read_bytes())
    for part in ("child", "dumps"):
        for file in sorted((compiler / part).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.digest()


@functools.cache
def reader_of_cycles() -> bytes:
    """Return a digest of the code that cycles alone depend on: answers of that kind ship with the course."""
    compiler, digest = pathlib.Path(__file__).parents[1], hashlib.sha256(b"cycles")
    for file in _READ_CYCLES:
        digest.update((compiler / file).read_bytes())
    return digest.digest()
