"""The pipeline chart in words: how long a step takes, and why.

pipeline_words.js says the same in JavaScript, and what happens in one step; a test compares them.
"""

import math

from course_lib import text, vocabulary
from course_lib.viz.pipeline_chart.pipeline_lanes import OUT, Bar, Played, Settings

_MORE = 1.05  # times the longest part: from there on T counts as more than each


def cycles(n: float) -> str:
    """Format a time in cycles: "1,209 cycles"."""
    return f"{_whole(n)} cycles"


def _whole(n: float) -> str:
    return text.count(math.floor(n + 0.5))


def title(data: dict, s: Settings) -> str:
    """Return the title of the chart."""
    return f"{data['kernel']}, {text.counted(s.buffers, 'buffer')}, {vocabulary.MODEL} on a {data['chip']}"


def readout(data: dict, s: Settings, found: Played) -> list[tuple[str, str]]:
    """Return (name, value with its unit) rows: the parts of a step, what binds, and how long the core waits."""
    parts, read, write = found.parts, any(data["reads"]), any(data["writes"])
    scalar = f", {_whole(data['scalar'])} of them scalar code" if data["scalar"] else ""
    most = max(part for part in parts.values() if part is not None)

    def mark(part: float) -> str:
        return ", the longest" if part == most else ""

    rows = [
        ("work, c", f"{cycles(found.work)}{scalar}{mark(found.work)}"),
        ("bytes", f"{cycles(parts['bytes'])} at {text.byte_rate(data['bandwidth'])}{mark(parts['bytes'])}"),
    ]
    for name, buffers, there in (("read", s.buffers, read), ("write", OUT, write)):
        if there:
            part = parts[name]
            value = f"not each step {name}s" if part is None else f"{cycles(part)}{mark(part)}"
            rows.append((f"(latency of a {name} + its bytes + c) / {buffers}", value))
    shown = min(s.shown, len(found.steps))
    step = f"{cycles(found.step)}, {text.duration(found.step / data['clock'])}, {vocabulary.MODEL}"
    rows += [
        ("T, a step on average", step),
        ("binds", found.bound),
        ("the core waits", text.percent(max(0.0, 1 - found.work / found.step))),
        ("bubbles", f"{len(found.bubbles)} in the {text.counted(shown, 'step')} shown"),
    ]
    if data["compiled"] and untouched(data, s):
        rows.append((vocabulary.COMPILER, f"{cycles(data['compiled'])} a step, first copy and last write included"))
    return rows


def untouched(data: dict, s: Settings) -> bool:
    """Whether the pipeline is still the kernel's own."""
    return s.buffers == data["buffers"] and s.block == 1 and s.work == data["work"]


def hints(data: dict, s: Settings, found: Played) -> list[str]:
    """Say what else there is to know, in sentences."""
    said, parts = [], [part for part in found.parts.values() if part is not None]
    if any(data["reads"]) and s.buffers == 1:
        said.append(
            "With one buffer, a read is requested when the work on the previous block is done, so nothing hides it."
        )
    if any(data["reads"]) and s.buffers > max(OUT, data["buffers"]):
        said.append(
            "pallas_call takes at most two buffers. emit_pipeline takes more for inputs; outputs have two as well."
        )
    if found.step > _MORE * max(parts):
        said.append("T is more than each of its parts, because copies wait for one another.")
    if data["compiled"] and untouched(data, s) and s.latency == "compiler" and found.step > _MORE * data["compiled"]:
        said.append("In the compiler's simulator, copies do not share the HBM; here they do.")
    if s.block != 1:
        said.append(
            f"Blocks × {text.significant(s.block, 3)}: bytes and work are assumed to grow with the block, scalar code "
            "to stay the same. The work of a matmul grows faster, so set it too."
        )
    read, write = data["latency"][s.latency]
    whose = vocabulary.COMPILER if s.latency == "compiler" else "fitted to published timings"
    said.append(
        f"Latency of a read {cycles(read)}, of a write {cycles(write)}, {whose}{data['borrowed']}. All copies share "
        f"the HBM, {_whole(data['bandwidth'] / data['clock'])} bytes a cycle, fitted to published timings."
    )
    return [*said, *data["notes"]]


def bubble(bar: Bar, steps: int) -> list[str]:
    """Return the words for a bubble in a kernel of ``steps`` steps, the longest first: the first that fits is used."""
    long = _whole(bar.end - bar.start)
    name = "prologue" if bar.step == 0 else "drain" if bar.step == steps else ""
    return [f"{name} {long}", long] if name else [long]
