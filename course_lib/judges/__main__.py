"""The four judges of a kernel in any Python file, in a terminal.

python -m course_lib.judges kernels.py:softmax --reference kernels.py:plain "f32[256,512]"
pallas-judge kernels.py:softmax --reference kernels.py:plain "f32[256,512]"      the same, if course_lib is installed
"""

import argparse
import dataclasses
import math
import sys

import jax
from jax.sharding import PartitionSpec

from course_lib import chips, judges
from course_lib.compiler import progress
from course_lib.compiler.command_line import Wrong, check_arguments, function, type_of

_EXAMPLE = """\
examples:
  %(prog)s kernels.py:softmax --reference kernels.py:plain "f32[256,512]"
  %(prog)s kernels.py:paged --reference kernels.py:plain --arguments kernels.py:pages
  %(prog)s kernels.py:softmax --reference kernels.py:plain "f32[256,512]" --budget spills=0
  %(prog)s rings.py:gathered --reference rings.py:plain "f32[64,128]" --mesh d=4 --specs d

The function and the reference are called with arrays of these types: floats are drawn from N(0, 1), integers from 0 to
7. If such values do not suit the function, --arguments names a function that returns the arguments in a tuple.

With --mesh, the function calls jax.shard_map without mesh=, its kernel may copy to other chips, and the judges are
protocol, numbers, compiler and schedule. --specs says along which axes each argument is cut, as PartitionSpec does:
"d; None,d" cuts the first along its rows, and the second along its columns.

A kernel on SparseCores needs --chip v5p, v6e or tpu7x; its judges are protocol, numbers and compiler.

Exit status: 0 if every judge passes it, 1 if one refuses it, 2 if they could not be asked or one could not run it.
Where libtpu does not exist, on a Mac for example, the compiler is skipped, which does not change the status."""

_TOPOLOGY = "v5e:2x2"
_LIMITS = {field.name: float if field.name == "times_reference" else int for field in dataclasses.fields(judges.Budget)}
del _LIMITS["slots"]


def main(arguments: list[str] | None = None, prog: str = "pallas-judge") -> int:
    """Run the command and return its exit status. ``prog`` is the command as it was started, for the help."""
    options = _parser(prog).parse_intermixed_args(arguments)  # types may follow --reference
    jax.config.update("jax_platforms", "cpu")  # leave an attached TPU alone
    try:
        mesh = _mesh(options)
        if (devices := math.prod(mesh.values())) > 1:
            jax.config.update("jax_num_cpu_devices", devices)
        if options.chip not in chips.NAMES:
            raise Wrong(f"--chip {options.chip} is not known. Choose one of: {', '.join(chips.NAMES)}.")
        budget = _budget(options.budget)
        fn, reference = function(options.function), function(options.reference)
        args = _arguments(options)
        check_arguments(options.function, fn, args)
        check_arguments(options.reference, reference, args)
        with progress.shown(f"judging {options.function}"):
            if mesh:
                verdicts = _on_many_chips(fn, reference, args, mesh, options)
            else:
                verdicts = _verdicts(fn, reference, args, budget, options.chip)
    except Wrong as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for verdict in verdicts:
        print(verdict)
    report = next((verdict.report for verdict in verdicts if verdict.report), None)
    if report is not None:
        print(f"\n{report}")
    if any(verdict.passed is False for verdict in verdicts):
        return 1
    could_not = [verdict for verdict in verdicts if verdict.passed is None and verdict.judge != "compiler"]
    return 2 if could_not else 0


def _verdicts(fn, reference, args: list, budget: judges.Budget | None, chip: str) -> list[judges.Verdict]:
    try:
        trial = judges.Trial(fn, reference, tuple(args), chip)
        trial.wanted  # noqa: B018  raises if the reference does not run, which the caller must fix
    except ValueError as error:
        raise Wrong(str(error)) from None
    return judges.asked(trial, budget)


def _on_many_chips(fn, reference, args: list, mesh: dict[str, int], options) -> list[judges.Verdict]:
    specs = [_spec(text, mesh) for text in options.specs.split(";")] if options.specs else [PartitionSpec()] * len(args)
    if len(specs) != len(args):
        raise Wrong(f"--specs has {len(specs)} of {len(args)} arguments. Write one for each, with ; between them.")
    how = {"mesh": tuple(mesh.values()), "axes": tuple(mesh), "in_specs": specs, "topology": options.topology}
    try:
        return judges.judge_chips(fn, reference, *args, **how)
    except ValueError as error:
        raise Wrong(str(error)) from None


def _mesh(options) -> dict[str, int]:
    """Return the sizes of the mesh axes by their names; {} without --mesh."""
    if options.mesh is None:
        if options.specs or options.topology != _TOPOLOGY:
            raise Wrong("--specs and --topology are for kernels on several chips: give --mesh d=4 too.")
        return {}
    if options.budget:
        raise Wrong("--budget is for kernels of one chip: the simulator counts no copies to others. Leave it out.")
    found = {}
    for part in options.mesh.split(","):
        name, _, size = (piece.strip() for piece in part.partition("="))
        if not name.isidentifier() or not size.isdigit() or not int(size):
            raise Wrong(f"--mesh: {part!r} is not an axis and its number of chips. Write d=4, for example.")
        found[name] = int(size)
    return found


def _spec(text: str, mesh: dict[str, int]) -> PartitionSpec:
    axes = [None if name.strip() in ("None", "") else name.strip() for name in text.split(",")]
    if strange := [name for name in axes if name is not None and name not in mesh]:
        raise Wrong(f"--specs: {strange[0]!r} is no axis of the mesh. There are: {', '.join(mesh)}, and None.")
    return PartitionSpec(*axes)


def _arguments(options) -> list:
    if options.arguments is None:
        return list(judges.drawn([type_of(text) for text in options.types], options.seed))
    if options.types:
        raise Wrong("give either the types of arrays or --arguments, not both.")
    try:
        made = function(options.arguments)()
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(f"{options.arguments} does not run: {type(error).__name__}: {error}".splitlines()[0]) from None
    if not isinstance(made, (tuple, list)):
        raise Wrong(f"{options.arguments} must return the arguments in a tuple; it returned {type(made).__name__}.")
    return list(judges.drawn(list(made), options.seed))


def _budget(text: str | None) -> judges.Budget | None:
    if text is None:
        return None
    limits = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in _LIMITS:
            raise Wrong(f"--budget: {name!r} is not a limit. The limits are: {', '.join(_LIMITS)}.")
        try:
            limits[name] = _LIMITS[name](value.replace("_", ""))
        except ValueError:
            raise Wrong(f"--budget: {name}={value!r} is not a number. Write {name}=1000, for example.") from None
    return judges.Budget(**limits)


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Ask the four judges about a Pallas kernel: numbers, simulator, races, compiler. No TPU is needed.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("function", metavar="FILE.py:function", help="a function in a Python file that runs kernels")
    parser.add_argument("types", metavar="TYPE", nargs="*", help='type of each argument: "bf16[512,256]", "f32[]"')
    parser.add_argument(
        "--reference", metavar="FILE.py:other", required=True, help="plain JAX or NumPy that returns the same arrays"
    )
    parser.add_argument("--arguments", metavar="FILE.py:make", help="a function that returns the arguments in a tuple")
    parser.add_argument("--chip", default="v5e", help=f"{', '.join(chips.NAMES)} (default: v5e)")
    parser.add_argument("--mesh", metavar="AXIS=N,...", help="several chips: the axes of their mesh, as in d=4")
    parser.add_argument("--specs", metavar="AXIS,...; ...", help="how the arguments lie on them, as in PartitionSpec")
    parser.add_argument("--topology", default=_TOPOLOGY, help=f"to compile for (default: {_TOPOLOGY})")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random arguments (default: 0)")
    parser.add_argument("--budget", metavar="LIMIT=N,...", help=f"the most that it may cost: {', '.join(_LIMITS)}")
    return parser


if __name__ == "__main__":
    sys.exit(main(prog="python -m course_lib.judges"))
