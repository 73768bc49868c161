"""Answers of a compiler's child, kept in files, so that no program is compiled and simulated twice.

The key is all that an answer depends on: the program as MLIR bytecode, the chip's topology, what the compiler reads in
its environment (whether to simulate among it), the memory it may use, the versions of libtpu and jaxlib, and the code
here that reads what the compiler writes. Kept is what has been read, not the compiler's own files: a hundredth of their
size, and no second reading. Only answers are kept. A crash or a time limit says something about this machine at this
hour, so the child is asked again.

A file is written beside its place and moved there at once, so several processes may read and write as they like. What
cannot be read is taken for absent and removed; where nothing can be written, nothing is kept, and all goes on. The
files hold JSON, which cannot run anything. They lie in ``environment.cache_folder()``, in ``compiled``; the ones that
nobody has used for longest go when there are more than MOST_BYTES.
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
_MOST_TEXT = 1 << 30  # of one file, unpacked: a longer one is none of ours

counts: collections.Counter[str] = collections.Counter()  # of this process: "hits", and "misses" for want of a file


def key(module: bytes, *, topology: str, settings: str, memory_bytes: int, cycles_only: bool = False) -> str:
    """What names an answer: 64 hexadecimal digits. ``settings``: all else that the compiler reads."""
    digest = hashlib.sha256()
    by = reader_of_cycles() if cycles_only else reader()
    for part in (module, topology.encode(), settings.encode(), str(memory_bytes).encode(), _versions(), by):
        digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()


def of_tpu(answer: dict) -> dict:
    """libtpu's answer of what stood in a file. Raises KeyError, TypeError or ValueError where it is none."""
    kept = {"hlo": str(answer["hlo"]), "code_bytes": int(answer["code_bytes"])}
    return kept | {"dump": stored.dump(answer["dump"])}


def get(key: str, read: Callable[[dict], dict] = of_tpu) -> dict | None:
    """The answer that is kept under ``key``; None without one. ``read``: what was made plain for ``put``, back again.

    What ``read`` raises says that the file is damaged.
    """
    if (folder := _folder()) is None:
        return None
    file = folder / key
    answer = _read(file, read)
    counts["misses" if answer is None else "hits"] += 1
    if answer is not None:
        with contextlib.suppress(OSError):
            os.utime(file)  # the oldest go first, and this one has just been of use
    return answer


def put(key: str, answer: dict) -> None:
    """Keep an answer that JSON can hold, but for libtpu's "dump", if there is a folder that can be written to."""
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
    """The answer in a file; None where there is none, or it is damaged: then it is removed."""
    try:
        packed = file.read_bytes()
    except OSError:
        return None
    try:
        return _understood(packed, read)
    except Exception:  # whatever may stand in it
        with contextlib.suppress(OSError):
            file.unlink()
        return None


def _understood(packed: bytes, read: Callable[[dict], dict]) -> dict:
    """The answer. Raises ValueError, zlib.error, KeyError or whatever else comes of a file that is not one."""
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
    """Remove what has not been used for longest, until the rest is small enough."""
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
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # a GPU's compiler does without libtpu
            found[name] = importlib.metadata.version(name)
    return ", ".join(f"{name} {version}" for name, version in found.items()).encode()


@functools.cache
def reader() -> bytes:
    """A digest of the code that asks the compiler and reads what it writes: ours may have been wrong before."""
    compiler = pathlib.Path(__file__).parents[1]
    digest = hashlib.sha256((compiler / "report.py").read_bytes())
    for part in ("child", "dumps"):
        for file in sorted((compiler / part).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.digest()


@functools.cache
def reader_of_cycles() -> bytes:
    """The same, of what an answer of cycles alone depends on: these come with the course, and hold for longer."""
    compiler, digest = pathlib.Path(__file__).parents[1], hashlib.sha256(b"cycles")
    for file in _READ_CYCLES:
        digest.update((compiler / file).read_bytes())
    return digest.digest()
