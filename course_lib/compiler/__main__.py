"""The compiler's report about a function in any Python file, on the command line.

python -m course_lib.compiler kernels.py:matmul "bf16[4096,4096]" "bf16[4096,4096]" --chip v5e
pallas-compile kernels.py:matmul "bf16[4096,4096]" "bf16[4096,4096]"      the same, where course_lib is installed
"""

import argparse
import sys
from collections.abc import Callable

import jax

from course_lib import chips, compiler
from course_lib.compiler.command_line import Wrong, check_arguments, function, type_of

_EXAMPLE = """\
example:
  %(prog)s kernels.py:matmul "bf16[4096,4096]" "bf16[4096,4096]" --chip v5e

The function is called with arrays of these types; their values do not matter. Exit status: 0 if it
compiles, 1 if the compiler refuses it, 2 if it could not be asked."""


_CHIPS = (*chips.NAMES, *chips.GPU_TARGETS)


def main(arguments: list[str] | None = None, prog: str = "pallas-compile") -> int:
    """Run the command and return its exit status. ``prog`` is how it was started, for the help."""
    options = _parser(prog).parse_args(arguments)
    jax.config.update("jax_platforms", "cpu")  # nothing runs here, so leave any TPU alone
    try:
        if options.chip not in _CHIPS:
            raise Wrong(f"--chip {options.chip} is not known. Choose one of: {', '.join(_CHIPS)}.")
        types = [type_of(text) for text in options.types]
        functions = _named([options.function, *options.compare])
        for name, fn in functions.items():
            check_arguments(name, fn, types)
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
    (only,) = functions.values()
    compile = compiler.compile_tpu if options.chip in chips.NAMES else compiler.compile_gpu
    return compile(only, *types, **how)


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Compile a function with the real TPU or GPU compiler, without the chip, and print its report.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("function", metavar="FILE.py:function", help="a function in a Python file")
    parser.add_argument("types", metavar="TYPE", nargs="*", help='type of each argument: "bf16[512,256]", "f32[]"')
    parser.add_argument("--chip", default="v5e", help=f"{', '.join(_CHIPS)} (default: v5e)")
    parser.add_argument(
        "--no-simulate", dest="simulate", action="store_false", help="only compile: faster, but no cycles"
    )
    parser.add_argument(
        "--compare",
        metavar="FILE.py:other",
        action="append",
        default=[],
        help="a second function to compare with the first",
    )
    return parser


def _named(names: list[str]) -> dict[str, Callable]:
    """Return the functions by name, without the file if the name alone tells them apart."""
    short = [name.rpartition(":")[2] for name in names]
    return {full if short.count(name) > 1 else name: function(full) for full, name in zip(names, short, strict=True)}


if __name__ == "__main__":
    sys.exit(main(prog="python -m course_lib.compiler"))
