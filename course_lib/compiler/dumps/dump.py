"""All that libtpu wrote into its dump folder about one compile."""

import dataclasses
import pathlib
import re

from course_lib.compiler.dumps import bundles, critical_path
from course_lib.compiler.dumps.allocations import allocations
from course_lib.cost import Allocation

# Ask libtpu for these passes only: 14 files instead of about 300 for each compile.
PASSES = "final_bundles|final_hlo-static-per-bundle-utilization|vmem_report"
_FILE = re.compile(r"\d+-(.*)-\d\d-(final_bundles|final_hlo-static-per-bundle-utilization|vmem_report)\.(?:txt|html)$")
_PATH = "_critical_path.txt"
_CYCLES = re.compile(r'hlo_op_name: "([^"]*)"\s*estimated_cycles: (-?\d+)(?:\s*num_equivalent_hlos: (\d+))?')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dump:
    """What the files say. Everything may be empty: they are an undocumented debugging aid."""

    cycles: dict[str, int]  # op -> simulated cycles of one run
    alike: dict[str, int]  # op -> how many ops of the module are the same program, and have these cycles each
    programs: dict[str, bundles.Program]
    time_split: dict[str, dict[str, int]]  # op -> what its critical path waits for -> cycles
    vmem: tuple[Allocation, ...]


def read(folder: pathlib.Path, cycles_only: bool = False) -> Dump:
    """Read the dump of the last compile; ``cycles_only``: of the simulator's figures, without programs and VMEM."""
    cycles, alike, split, texts = {}, {}, {}, {}
    for file in sorted(folder.iterdir()):
        if file.name.endswith("static_llo_profile.textproto"):
            for op, n, times in _CYCLES.findall(_text(file)):
                cycles[op], alike[op] = int(n), int(times or 1)
        elif file.name.endswith(_PATH):
            with file.open(errors="replace") as lines:
                split[file.name.removesuffix(_PATH)] = critical_path.time_split(lines)
        elif not cycles_only and (match := _FILE.match(file.name)):
            texts.setdefault(match[1], {})[match[2]] = _text(file)
    pieces = [piece for found in texts.values() for piece in allocations(found.get("vmem_report", ""))]
    return Dump(cycles=cycles, alike=alike, programs=_programs(texts), time_split=split, vmem=tuple(pieces))


def _programs(texts: dict[str, dict[str, str]]) -> dict[str, bundles.Program]:
    return {
        op: bundles.read(op, found["final_bundles"], found.get("final_hlo-static-per-bundle-utilization", ""))
        for op, found in texts.items()
        # TLP and the others are the runtime's own frame around the program
        if op != "TLP" and not op.startswith("<late") and "final_bundles" in found
    }


def _text(file: pathlib.Path) -> str:
    return file.read_text(errors="replace")
