"""What the compiler said about a program, kept in memory and in a file, so that no program is simulated twice.

The key is the program itself, as it is handed to the compiler, with its chip, the versions of JAX and libtpu, and the
part of this library that turns the compiler's words into figures. So a kernel that has changed, or anything that it
calls, has another key; a kernel that has only moved to another line or another file keeps its own.

The file is ``autotune.json`` in ``environment.cache_folder()``. A file that cannot be read or written is no error: the
search takes longer.
"""

import functools
import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Callable

import jax
import numpy as np

import course_lib
from course_lib import chips, environment, grid
from course_lib.compiler import tpu

FORMAT = 1
_MOST = 5_000  # entries: 1 MB. The oldest go first.

_memory: dict[str, dict] = {}


def key(fn: Callable, *args, chip: str) -> str | None:
    """What names the program ``jit(fn)(*args)`` for ``chip``: 64 hexadecimal digits; None where it does not trace."""
    try:
        traced = grid.trace(fn, *args, chip=chip)
        program = tpu.lower(traced, *args, chip=chips.chip(chip))
    except Exception:  # whatever it is, the compiler will be asked, and explain it
        return None
    digest = hashlib.sha256(program)
    for text in (chip, tpu.versions(), _reader()):
        digest.update(b"\0" + text.encode())
    for value in jax.tree.leaves(args):
        if isinstance(value, (np.ndarray, jax.Array)) and np.issubdtype(value.dtype, np.integer):
            digest.update(np.asarray(value).tobytes())  # scalar prefetch: the bytes moved depend on the values
    return digest.hexdigest()


def get(key: str | None) -> dict | None:
    """What is known of a program; None for nothing."""
    if key not in _memory:
        _memory.update(_read())
    return _memory.get(key)


def put(key: str | None, value: dict) -> None:
    """Keep a program's figures (numbers and text by name)."""
    if key is None:
        return
    _memory[key] = value
    if (file := path()) is not None:
        _write(file, _read() | {key: value})  # read again: another process may have written meanwhile


def path() -> pathlib.Path | None:
    """The file; None where nothing is kept in one."""
    folder = environment.cache_folder()
    return None if folder is None else folder / "autotune.json"


def _read() -> dict[str, dict]:
    file = path()
    try:
        kept = json.loads(file.read_text()) if file else {}
        entries = kept["entries"] if kept and kept["format"] == FORMAT else {}
        return {key: value for key, value in entries.items() if isinstance(value, dict)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there, or not ours
        return {}


def _write(file: pathlib.Path, entries: dict[str, dict]) -> None:
    text = json.dumps({"format": FORMAT, "entries": dict(list(entries.items())[-_MOST:])}, indent=0)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=".autotune-", delete=False) as written:
            written.write(text)
        os.replace(written.name, file)  # at once: who reads sees the old file or the new one
    except OSError:
        pass


@functools.lru_cache(maxsize=1)
def _reader() -> str:
    """A digest of the code that makes figures of what the compiler says: ours may have been wrong before."""
    root = pathlib.Path(course_lib.__file__).parent
    digest = hashlib.sha256((root / "chips.py").read_bytes())
    for part in ("compiler", "cost", "grid"):
        for file in sorted((root / part).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()
