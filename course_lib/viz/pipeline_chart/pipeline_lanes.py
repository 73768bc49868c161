"""The steps of a kernel's pipeline over time: what is requested, arrives, is worked on and leaves, in which buffer.

pipeline_lanes.js is the same in JavaScript; a test compares them.
"""

import dataclasses
from typing import NamedTuple

from course_lib import vocabulary
from course_lib.roofline import pipeline

PLAYED = 256  # steps at most; T is the mean of the later half
OUT = 2  # buffers of a written block, however many a read block has
_NEAR = 0.05  # T equals one of its parts if they are nearer than this: vocabulary.py
_BUBBLE = 0.5  # cycles: a shorter wait does not count
_HAIR = 2**-20  # cycles: a rounding error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of the controls."""

    buffers: int = 2  # of each block that is read ahead
    block: float = 1.0  # multiple of the kernel's own blocks
    work: float  # cycles of the core in a step with the kernel's own blocks, without scalar code
    shown: int = 8  # steps
    latency: str = "compiler"  # source: "compiler" or "timings"


class Played(NamedTuple):
    """The steps of a pipeline and what follows from them, all times in cycles."""

    steps: list[pipeline.Step]
    read: float  # latency of a read
    work: float  # of the core in a step, with scalar code
    step: float  # T: the time of a step in the steady state
    parts: dict[str, float | None]  # "work", "bytes", "read", "write": T is the longest; None: not in each step
    bound: str  # vocabulary.COMPUTE, HBM, STEPS or BOTH
    bubbles: list[tuple[int, float, float]]  # (step, from, to): the core waits before a step, or after the last
    end: float  # of the steps shown


def played(data: dict, s: Settings) -> Played:
    """Run the pipeline with these settings; ``data`` is ``PipelineChart.data``."""
    work = data["scalar"] + s.work * s.block
    pace = s.block * data["clock"] / data["bandwidth"]  # cycles per byte
    reads, writes, alone = ([size * pace for size in data[name]] for name in ("reads", "writes", "alone"))
    read_s, write_s = data["latency"][s.latency]
    steps = pipeline.steps([work] * len(reads), reads, writes, alone, read_s=read_s, write_s=write_s, buffers=s.buffers)
    count = len(steps)
    half = count - (count // 2 // s.buffers * s.buffers or count // 2) if count > 3 else 0  # whole turns of the buffers
    step = (steps[-1].done - (steps[half - 1].done if half else 0.0)) / (count - half)

    def mean(sizes):
        return sum(sizes[half:]) / (count - half)

    parts = {
        "work": work,
        "bytes": mean(reads) + mean(writes) + mean(alone),
        "read": (read_s + mean(reads) + work) / s.buffers if all(reads[half:]) else None,
        "write": (write_s + mean(writes) + work) / OUT if all(writes[half:]) else None,
    }
    shown = min(s.shown, count)
    bubbles, end = _bubbles(steps[:shown]), steps[shown - 1].done
    if shown == count and data["ends"]:
        end = max(steps[-1].ends, steps[-1].gone or 0.0)
        bubbles += [(count, steps[-1].done, end)] if end - steps[-1].done > _BUBBLE else []
    return Played(
        steps=steps,
        read=read_s,
        work=work,
        step=step,
        parts=parts,
        bound=_bound(step, parts, data["scalar"]),
        bubbles=bubbles,
        end=end,
    )


def _bound(step: float, parts: dict, scalar: float) -> str:
    """Name the part that equals T; if neither work nor bytes does, it is the cost of the grid steps."""
    core, hbm = (abs(step - parts[name]) < _NEAR * step for name in ("work", "bytes"))
    if core and hbm:
        return vocabulary.BOTH
    if hbm:
        return vocabulary.HBM
    return vocabulary.COMPUTE if core and 2 * scalar <= parts["work"] else vocabulary.STEPS


def _bubbles(steps: list[pipeline.Step]) -> list[tuple[int, float, float]]:
    before = [0.0, *(step.done for step in steps)]
    gaps = [(n, done, step.begins) for n, (done, step) in enumerate(zip(before, steps, strict=False))]
    return [(n, done, begins) for n, done, begins in gaps if begins - done > _BUBBLE]


class Bar(NamedTuple):
    """A span of time in a lane."""

    lane: str
    kind: str  # "queue", "latency", "bytes", "waits", "in use", "work", "bubble", "leaving", "answer"
    step: int  # whose
    start: float  # cycles
    end: float


def lanes(data: dict, s: Settings) -> list[str]:
    """Name the lanes, from the top."""
    read = [f"buffer {n}" for n in range(min(s.buffers, sum(map(bool, data["reads"]))))]
    alone = ["one buffer"] if any(data["alone"]) else []
    written = [f"out {n}" for n in range(min(OUT, sum(map(bool, data["writes"]))))]
    return [*read, *alone, "core", *written]


def bars(found: Played, s: Settings) -> list[Bar]:
    """List the bars to draw, in cycles; those that begin after the steps shown are left out, longer ones are cut."""
    made, shown = [], min(s.shown, len(found.steps))
    made += _reading(found, s.buffers) + _writing(found.steps)
    for n, step in enumerate(found.steps[: shown + 1]):
        if step.alone is not None:
            made += [Bar("one buffer", "latency", n, step.alone, step.alone + found.read)]
            made += [Bar("one buffer", "bytes", n, step.alone + found.read, step.begins)]
            made += [Bar("one buffer", "in use", n, step.begins, step.done)]
        made += [Bar("core", "work", n, step.begins, step.done)]
    made += [Bar("core", "bubble", n, start, end) for n, start, end in found.bubbles]
    return [bar._replace(end=min(bar.end, found.end)) for bar in made if bar.start < min(bar.end, found.end) - _HAIR]


def _reading(found: Played, buffers: int) -> list[Bar]:
    """List the copies in; a buffer stays in use until the step before the next block is read."""
    steps, made = found.steps, []
    reading = [n for n, step in enumerate(steps) if step.asked is not None]
    for visit, n in enumerate(reading):
        step, lane = steps[n], f"buffer {visit % buffers}"
        last = reading[visit + 1] - 1 if visit + 1 < len(reading) else len(steps) - 1
        made += [
            Bar(lane, "queue", n, step.asked, step.flows - found.read),
            Bar(lane, "latency", n, step.flows - found.read, step.flows),
            Bar(lane, "bytes", n, step.flows, step.arrives),
            Bar(lane, "waits", n, step.arrives, step.begins),
            Bar(lane, "in use", n, step.begins, steps[last].done),
        ]
    return made


def _writing(steps: list[pipeline.Step]) -> list[Bar]:
    """List the copies out; a buffer is in use from the step after the previous write."""
    made, writing = [], [n for n, step in enumerate(steps) if step.leaves is not None]
    for visit, n in enumerate(writing):
        step, lane = steps[n], f"out {visit % OUT}"
        first = writing[visit - 1] + 1 if visit else 0
        made += [
            Bar(lane, "in use", n, steps[first].begins, step.done),
            Bar(lane, "queue", n, step.done, step.leaves),
            Bar(lane, "leaving", n, step.leaves, step.left),
            Bar(lane, "answer", n, step.left, step.gone),
        ]
    return made
