"""The compiler's report about a function in any Python file, in a terminal.

python -m course_lib.compiler kernels.py:matmul "bf16[4096,4096]" "bf16[4096,4096]" --chip v5e
"""

import argparse
import importlib.util
import inspect
import pathlib
import sys
from collections.abc import Callable

import jax

from course_lib import chips, compiler
from course_lib.compiler.array_types import parsed

_EXAMPLE = """\
example:
  python -m course_lib.compiler kernels.py:matmul "bf16[4096,4096]" "bf16[4096,4096]" --chip v5e

The function is called with arrays of these types; their values do not matter. Exit status: 0 if it
compiles, 1 if the compiler refuses it, 2 if it could not be asked."""


_CHIPS = (*chips.NAMES, *chips.GPU_TARGETS)


class Wrong(Exception):
    """Something about the command is wrong; the message is one line for the person who typed it."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status."""
    options = _parser().parse_args(arguments)
    jax.config.update("jax_platforms", "cpu")  # nothing runs here; a TPU, if there is one, is left alone
    try:
        if options.chip not in _CHIPS:
            raise Wrong(f"--chip {options.chip} is not known. Choose one of: {', '.join(_CHIPS)}.")
        types = [_type(text) for text in options.types]
        functions = _named([options.function, *options.compare])
        for name, function in functions.items():
            _check_arguments(name, function, types)
        said = _ask(functions, types, options)
    except (Wrong, compiler.Unavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(said)
    reports = said.reports.values() if options.compare else [said]
    return 0 if all(report.ok for report in reports) else 1


def _ask(functions: dict[str, Callable], types: list, options):
    how = {"chip": options.chip}
    if options.chip in chips.NAMES:
        how["simulate"] = options.simulate
    if options.compare:
        return compiler.compare(functions, *types, **how)
    (function,) = functions.values()
    compile = compiler.compile_tpu if options.chip in chips.NAMES else compiler.compile_gpu
    return compile(function, *types, **how)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.compiler",
        description="Compile a function with the real compiler of a TPU or GPU, without one, and print what it says.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("function", metavar="FILE.py:function", help="a function in a Python file")
    parser.add_argument("types", metavar="TYPE", nargs="*", help='type of each argument: "bf16[512,256]", "f32[]"')
    parser.add_argument("--chip", default="v5e", help=f"{', '.join(_CHIPS)} (default: v5e)")
    parser.add_argument(
        "--no-simulate", dest="simulate", action="store_false", help="only compile; no cycles, but sooner done"
    )
    parser.add_argument(
        "--compare", metavar="FILE.py:other", action="append", default=[], help="a second function, beside the first"
    )
    return parser


def _type(text: str) -> jax.ShapeDtypeStruct:
    try:
        return parsed(text)
    except ValueError as error:
        raise Wrong(str(error)) from None


def _named(names: list[str]) -> dict[str, Callable]:
    """The functions by name, without the file where that is enough to tell them apart."""
    short = [name.rpartition(":")[2] for name in names]
    return {full if short.count(name) > 1 else name: _function(full) for full, name in zip(names, short, strict=True)}


def _function(name: str) -> Callable:
    path, colon, function = name.rpartition(":")
    file = pathlib.Path(path)
    if not colon or not function:
        raise Wrong(f"{name!r} does not name a function: write FILE.py:function.")
    if not file.is_file():
        raise Wrong(f"there is no file {path!r}.")
    found = getattr(_module(file), function, None)
    if not callable(found):
        raise Wrong(f"{path} has no function {function!r}.")
    return found


def _check_arguments(name: str, function: Callable, types: list) -> None:
    try:
        inspect.signature(function).bind(*types)
    except TypeError as error:
        raise Wrong(f"{name}{inspect.signature(function)} was given {len(types)} types: {error}.") from None
    except ValueError:
        pass  # a function that does not tell its parameters


def _module(file: pathlib.Path):
    """The file, imported as Python would run it: with its folder on the path."""
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
    return module


if __name__ == "__main__":
    sys.exit(main())
