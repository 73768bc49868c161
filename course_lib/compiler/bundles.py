"""Read what libtpu writes about a compiled program: cycles, VLIW bundles, slot use, spills, VMEM.

The files are an undocumented debugging aid, so everything is optional: what is not there, or looks different
from what we know (libtpu 0.0.48 and 0.0.50), is left out of the answer.
"""

import collections
import json
import pathlib
import re

# Ask libtpu for these passes only: 14 files instead of about 300 for each compile.
PASSES = "final_bundles|final_hlo-static-per-bundle-utilization|vmem_report"
_FILE = re.compile(r"\d+-(.*)-\d\d-(final_bundles|final_hlo-static-per-bundle-utilization|vmem_report)\.(?:txt|html)$")
_CYCLES = re.compile(r'hlo_op_name: "([^"]*)"\s*estimated_cycles: (-?\d+)(?:\s*num_equivalent_hlos: (\d+))?')
_BUNDLE = re.compile(r"^ *(0x[0-9a-f]+|0) +(?:[A-Z]{2})? *:", re.M)


def read(folder: pathlib.Path) -> dict:
    """All that the dump files in ``folder`` say.

    cycles: {op: simulated cycles}; bundles: static count; slots: {unit: [used, offered per bundle]};
    spills, fills: static counts; vmem: [[op, bytes, purpose], ...].
    """
    answer = {"cycles": {}, "bundles": 0, "slots": {}, "spills": 0, "fills": 0, "vmem": []}
    programs = collections.defaultdict(dict)
    for file in sorted(folder.iterdir()):
        if file.name.endswith("static_llo_profile.textproto"):
            for op, cycles, times in _CYCLES.findall(file.read_text(errors="replace")):
                answer["cycles"][op] = int(cycles) * int(times or 1)
        elif match := _FILE.match(file.name):
            programs[match[1]][match[2]] = file.read_text(errors="replace")
    for name, texts in programs.items():
        if name != "TLP" and not name.startswith("<late"):  # the runtime's own frame around the program
            _add_program(answer, texts)
        if "vmem_report" in texts:
            answer["vmem"] += vmem_allocations(texts["vmem_report"])
    return answer


def _add_program(answer: dict, texts: dict) -> None:
    answer["bundles"] += len(_BUNDLE.findall(texts.get("final_bundles", "")))
    offered, used = slot_use(texts.get("final_hlo-static-per-bundle-utilization", ""))
    answer["spills"] += used.pop("VSTORE:SPILL", 0)
    answer["fills"] += used.pop("VLOAD:FILL", 0)
    for unit, count in used.items():
        before = answer["slots"].get(unit, [0, offered[unit]])
        answer["slots"][unit] = [before[0] + count, offered[unit]]


def slot_use(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """Slots offered per bundle and slots used in all, by unit. The header names the units; it differs by version."""
    lines = text.splitlines()
    head = next((n for n, line in enumerate(lines) if "VALU" in line and "," in line), None)
    body = next((n for n, line in enumerate(lines) if "UTILIZATION" in line), None)
    if head is None or body is None:
        return {}, {}
    units = [unit.strip() for unit in lines[head].split(",")]
    offered = dict(zip(units, map(int, lines[head + 1].split()), strict=True))
    rows = [list(map(int, line.split())) for line in lines[body + 1 :] if line.strip()]
    return offered, {unit: sum(row[n] for row in rows) for n, unit in enumerate(units)}


def vmem_allocations(html: str) -> list[list]:
    """[[op, bytes, purpose], ...] from the JSON inside libtpu's VMEM report page."""
    start = html.find("{", html.find("const DATA"))
    try:
        data, _ = json.JSONDecoder().raw_decode(html[start:])
    except ValueError:
        return []
    return [
        [op, item["size"], item.get("tag", "")]
        for op, entry in (data.get("hlo_breakdowns") or {}).items()
        if op != "<top-inlining-caller>"  # repeats the program's own entry
        for block in entry.get("blocks") or []
        for item in block.get("allocations") or []
    ]
