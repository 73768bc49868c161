"""What the commands share: a function named as FILE.py:function, array types, and one-line errors."""

import importlib.util
import inspect
import pathlib
import sys
from collections.abc import Callable

import jax

from course_lib.compiler.array_types import parsed


class Wrong(Exception):
    """A mistake in the command; the message is one line for the person who typed it."""


def type_of(text: str) -> jax.ShapeDtypeStruct:
    """Return the shape and dtype that ``text`` names, such as "bf16[512,256]". Raises Wrong."""
    try:
        return parsed(text)
    except ValueError as error:
        raise Wrong(str(error)) from None


def function(name: str) -> Callable:
    """Run the file and return the function that "FILE.py:function" names. Raises Wrong."""
    path, colon, wanted = name.rpartition(":")
    file = pathlib.Path(path)
    if not colon or not wanted:
        raise Wrong(f"{name!r} does not name a function: write FILE.py:function.")
    if not file.is_file():
        raise Wrong(f"there is no file {path!r}.")
    found = getattr(_module(file), wanted, None)
    if not callable(found):
        raise Wrong(f"{path} has no function {wanted!r}.")
    return found


def check_arguments(name: str, function: Callable, arguments: list) -> None:
    """Raise Wrong if ``function`` does not take these arguments."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise Wrong(f"{name}{inspect.signature(function)} was given {len(arguments)} arguments: {error}.") from None
    except ValueError:
        pass  # a function that does not reveal its parameters


_modules: dict[pathlib.Path, object] = {}  # so that a file named twice is run once


def _module(file: pathlib.Path):
    """Import a file as Python would run it, with its folder on the path. Raises Wrong."""
    if (known := _modules.get(file.resolve())) is not None:
        return known
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None:
        raise Wrong(f"{str(file)!r} is not a Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        what = str(error).splitlines()[:1] or [""]
        raise Wrong(f"{file} does not run: {type(error).__name__}: {what[0]}") from None
    _modules[file.resolve()] = module
    return module
