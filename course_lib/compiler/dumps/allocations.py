"""libtpu's report on VMEM, read for what each piece is for."""

import json
import re

from course_lib.cost import Allocation

_PURPOSES = (
    ("input window", "input window"),
    ("output window", "output window"),
    ("scratch", "scratch"),
    ("scoped memory for", "scratch"),  # pl.run_scoped, and everything in a pl.kernel
    ("spill", "spill slots"),
)
_NUMBER = re.compile(r"operator (?:input|output) (\d+)")
_BUFFERS = re.compile(r"has (\d+) buffering levels")


def allocations(html: str) -> list[Allocation]:
    """Return the pieces named in the JSON of libtpu's VMEM report page; none if its format is unknown.

    ``name`` is "input 0" or "output 0" if libtpu says which operand a window is for.
    """
    start = html.find("{", html.find("const DATA"))
    try:
        data, _ = json.JSONDecoder().raw_decode(html[start:])
    except ValueError:
        return []
    return [
        _allocation(op, item)
        for op, entry in (data.get("hlo_breakdowns") or {}).items()
        if op != "<top-inlining-caller>"  # repeats the program's own entry
        for block in entry.get("blocks") or []
        for item in block.get("allocations") or []
    ]


def _allocation(op: str, item: dict) -> Allocation:
    tag = item.get("tag") or ""
    purpose = next((ours for theirs, ours in _PURPOSES if theirs in tag.lower()), "other")
    number, buffers = _NUMBER.search(tag), _BUFFERS.search(tag)
    return Allocation(
        op=op,
        bytes=item["size"],
        purpose=purpose,
        name=f"{purpose.split()[0]} {number[1]}" if number else "",
        buffers=int(buffers[1]) if buffers else 1,
    )
