"""Read the simulator's critical path: the chain of instructions that decides how long a program takes.

Each line is one instruction and the cycles from it to the end. One cycle of the step to the next line is the
issue of the instruction, whatever is more is spent waiting for what it does. The issue of scalar instructions counts
as scalar code: addresses, conditions, loops, starting copies and waiting for them.
"""

import collections
import itertools
import re
from collections.abc import Iterable

ISSUE, SCALAR = "issue", "scalar"
_LINE = re.compile(r"Length to end: (\d+), (?:%\S+ = )?([\w.]+)")
# The first prefix that fits says what an instruction keeps waiting for.
_WAITS = (
    ("dma.", "DMA wait"),
    ("vmat", "MXU"),
    ("vdwg", "MXU"),
    ("vpop.f32.mr", "MXU"),
    ("vpop.s32.mr", "MXU"),
    ("vxpose", "XLU"),
    ("vrot", "XLU"),
    ("vperm", "XLU"),
    ("vsetperm", "XLU"),
    ("vbcast", "XLU"),
    ("vpop.permute", "XLU"),
    ("vpop.xlane", "XLU"),
    ("vpop.trf", "XLU"),
    ("vpop.xlu", "XLU"),
    ("vpow", "EUP"),
    ("vlog", "EUP"),
    ("vrcp", "EUP"),
    ("vrsqrt", "EUP"),
    ("vtanh", "EUP"),
    ("verf", "EUP"),
    ("vsin", "EUP"),
    ("vcos", "EUP"),
    ("vpop.eup", "EUP"),
    ("vld", "load"),
    ("vst", "store"),
    ("vsync", SCALAR),
    ("vnop", SCALAR),
    ("v", "VPU"),
)


def time_split(lines: Iterable[str]) -> dict[str, int]:
    """Return cycles by what they are spent on, from the lines of a critical path; their sum is the program's length.

    Keys: "issue", of vector instructions; "DMA wait", "MXU", "XLU", "EUP", "VPU", "load", "store": waiting for what
    they do; and "scalar", issue and waiting of scalar instructions.
    """
    issued: collections.Counter[str] = collections.Counter()  # cycles by operation: a path has a million lines,
    waited: collections.Counter[str] = collections.Counter()  # and a hundred different operations
    matches = (match.groups() for line in lines if (match := _LINE.match(line)))
    for (before, operation), (left, _) in itertools.pairwise(itertools.chain(matches, [("0", "")])):
        cycles = int(before) - int(left)
        issued[operation] += min(cycles, 1)
        waited[operation] += max(cycles - 1, 0)
    spent: collections.Counter[str] = collections.Counter()
    for operation in issued:
        unit = waits_for(operation)
        spent[SCALAR if unit in (SCALAR, "DMA wait") else ISSUE] += issued[operation]
        spent[unit] += waited[operation]
    return {name: cycles for name, cycles in spent.items() if cycles}


def waits_for(operation: str) -> str:
    """Return what the program waits for while ``operation`` is under way."""
    if ".xlane" in operation:  # vadd.xlane and its kin add across lanes
        return "XLU"
    return next((unit for prefix, unit in _WAITS if operation.startswith(prefix)), SCALAR)
