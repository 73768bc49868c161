"""XLA's program for a function in a few lines: its operations, what is fused into each, and the bytes each moves."""

import re
from collections.abc import Callable, Iterator, Mapping

from course_lib.compiler.tpu import compile_tpu

_OPENS = re.compile(r"(?:ENTRY )?%([\w.\-]+) \(.*\{$")  # a computation begins
_OPERATION = re.compile(r"\s+(?:ROOT )?%([\w.\-]+) = .*? ([a-z][\w\-]*)\(")
_CALLS = re.compile(r"calls=%([\w.\-]+)")
_SILENT = {"parameter", "constant", "broadcast", "bitcast", "reshape", "copy", "tuple"}  # they compute nothing

Inside = Mapping[str, list[tuple[str, list[str]]]]  # computation -> (kind, called computations) of each operation


def program(fn: Callable, *args, chip: str = "v5e") -> str:
    """Describe XLA's program for ``fn``, one line per operation: its HBM bytes, its kind, what is fused into it.

    The last line is the total of the bytes. ``args`` are arrays or ShapeDtypeStructs. The bytes of XLA's own matmuls
    are a lower bound that counts each array once. Raises ValueError if the compiler refuses ``fn``, and
    ``compiler.Unavailable``.
    """
    report = compile_tpu(fn, *args, chip=chip, simulate=False)
    if not report.ok:
        raise ValueError(f"program: there is none. {report.refusal}: {report.error.what}")
    inside, calls = _computations(report.hlo)
    lines = []
    for op in report.ops:
        names = [name for name in dict.fromkeys(_held(calls.get(op.name, ()), inside)) if name not in _SILENT]
        lines.append(f"{op.hbm_bytes or 0:15,}  {op.kind:10} {', '.join(names)}".rstrip())
    total = "not counted" if report.hbm_bytes is None else f"{report.hbm_bytes:,}"
    return "\n".join([*lines, f"{total:>15}  bytes"])


def _computations(hlo: str) -> tuple[Inside, dict[str, list[str]]]:
    """Return the operations of each computation, and the computations that each operation calls."""
    inside, calls, here = {}, {}, []
    for line in hlo.splitlines():
        if opened := _OPENS.match(line):
            here = inside.setdefault(opened[1], [])
        elif found := _OPERATION.match(line):
            calls[found[1]] = _CALLS.findall(line)
            here.append((found[2], calls[found[1]]))
    return inside, calls


def _held(computations: list[str], inside: Inside) -> Iterator[str]:
    """Yield the kinds of the operations in ``computations``, including those of nested fusions."""
    for kind, within in (pair for computation in computations for pair in inside[computation]):
        if kind == "fusion":
            yield from _held(within, inside)
        else:
            yield kind
