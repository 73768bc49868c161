"""The three matmul kernels, read from the library's own files, so that what a reader sees is what runs."""

import ast
import functools
import importlib.resources
from typing import NamedTuple


class Engine(NamedTuple):
    """A machine, the file of its kernel below ``course_lib/kernels``, and the functions of that file to show."""

    key: str  # in engine_programs.json
    name: str
    file: str
    functions: tuple[str, ...]
    program: str  # what the compiler's output is called


class Line(NamedTuple):
    """A line of a file and its number there, counted from 1."""

    number: int
    text: str


ENGINES = (
    Engine("tpu", "TPU, by Mosaic", "matmul/kernel.py", ("_kernel", "launch"), "bundles for a v5e"),
    Engine("hopper", "Hopper, by Mosaic GPU", "matmul/mosaic_gpu.py", ("product",), "PTX for an H100"),
    Engine("ampere", "Ampere, by Triton", "matmul/triton.py", ("product",), "PTX for an A100"),
)


@functools.cache
def source(engine: Engine) -> tuple[Line, ...]:
    """Return the lines of the engine's functions, in the order of the file."""
    text = importlib.resources.files("course_lib").joinpath("kernels", engine.file).read_text("utf-8")
    nodes = [node for node in ast.parse(text).body if getattr(node, "name", None) in engine.functions]
    numbers = [number for node in nodes for number in range(node.lineno, node.end_lineno + 1)]
    lines = text.splitlines()
    return tuple(Line(number, lines[number - 1]) for number in numbers)


def number(engine: Engine, mark: str) -> int:
    """Return the number of the line that contains ``mark``. Raises ValueError unless exactly one does."""
    found = [line.number for line in source(engine) if mark in line.text]
    if len(found) != 1:
        raise ValueError(f"{len(found)} lines of kernels/{engine.file} contain {mark!r}; it must be one.")
    return found[0]
