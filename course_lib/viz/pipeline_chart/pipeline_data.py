"""The data of a pipeline chart: the copies of a kernel's steps, its work, and the latencies of a chip."""

from collections.abc import Callable

import numpy as np

from course_lib import chips, compiler, grid, roofline, text, vocabulary
from course_lib.viz.pipeline_chart.pipeline_lanes import PLAYED


def of_chip(chip: str) -> dict:
    """Return clock, bandwidth that copies reach, and latencies (read, write) in cycles, from two sources."""
    fitted = chip if chip in roofline.FITTED else "v5e"
    constants, made_of = roofline.FITTED[fitted], chips.chip(chip)
    clock = made_of.clock_hz or roofline.CLOCK_HZ[chip]
    simulated = roofline.latency(1.0, chip=fitted)
    return {
        "chip": chip,
        "clock": clock,
        "bandwidth": made_of.program_bandwidth * constants.hbm,
        "latency": {
            "compiler": _in_cycles(simulated["read_s"], simulated["write_s"], chip, clock),
            "timings": _in_cycles(constants.read_s, constants.write_s, chip, clock),
        },
        "borrowed": "" if fitted == chip else f" of a {fitted}, because none are known for a {chip}",
    }


def _in_cycles(read_s: float, write_s: float, chip: str, clock: float) -> list[float]:
    """Convert latencies to cycles of ``roofline.CLOCK_HZ``, or of the chip's own clock if it has none there."""
    counted = roofline.CLOCK_HZ.get(chip, clock)
    return [read_s * counted, write_s * counted]


def of_plain(chip: str, block: int, work: float | None) -> dict:
    """Describe a kernel that reads a block in each step, works on it, and writes one."""
    return of_chip(chip) | {
        "kernel": "A kernel that reads and writes a block in each step",
        "reads": [block] * PLAYED,
        "writes": [block] * PLAYED,
        "alone": [0] * PLAYED,
        "ends": False,
        "unit": block,
        "scalar": 0.0,
        "work": 250.0 if work is None else float(work),
        "buffers": 2,
        "compiled": None,
        "notes": [],
    }


def of_kernel(fn: Callable, args: tuple, chip: str, work: float | None) -> dict:
    """Describe the first kernel of ``fn(*args)``, with the compiler's work, or the model's if there is no compiler."""
    kernels = roofline.load(fn, *args, chip=chip).kernels
    if not kernels:
        raise ValueError("pipeline_chart: this function has no kernel to show. Pass one that calls pl.pallas_call.")
    kernel, given = kernels[0], of_chip(chip)
    call = next(call for call in grid.walk(fn, *args, chip=chip).calls if call.steps)
    reads, writes, alone, buffers = kernel.reads, kernel.writes, kernel.alone, kernel.buffers
    if _one_buffer(call) and not reads[1:].any():  # all reads have one buffer: let it be changed
        reads, alone, buffers = reads + alone, np.zeros_like(alone), 1
    report = _compiled(fn, args, chip)
    scalar, its, notes = _core(kernel, given, report)
    if work is not None:
        its, notes = float(work), []
    most = [float(sizes[1:].max(initial=sizes[0])) for sizes in (reads, alone, writes)]
    return given | {
        "kernel": kernel.name,
        "reads": reads[:PLAYED].tolist(),
        "writes": writes[:PLAYED].tolist(),
        "alone": alone[:PLAYED].tolist(),
        "ends": len(reads) <= PLAYED,
        "unit": next((size for size in most if size), 0.0),
        "scalar": scalar,
        "work": its,
        "buffers": buffers,
        "compiled": report.cycles / len(reads) if report and report.step else None,
        "notes": [*notes, *_moves(call)],
    }


def _one_buffer(call: grid.Call) -> bool:
    """Whether blocks that are read have one buffer, and written ones do not."""
    single = {o.role for o in _operands(call) if o.pipelined and o.buffers == 1 and o.changes.sum() > 1}
    return single == {"input"}


def _compiled(fn: Callable, args: tuple, chip: str) -> compiler.Report | None:
    try:
        return compiler.compile_tpu(fn, *args, chip=chip)
    except compiler.Unavailable:
        return None


def _core(kernel, given: dict, report: compiler.Report | None) -> tuple[float, float, list[str]]:
    """Return the cycles of scalar code and of other work in a step, and the source of these figures."""
    if report is not None and report.step:
        each = report.steps / len(kernel.reads)  # each manual copy is a step here
        words = f"Work and scalar code: {vocabulary.COMPILER}."
        return report.step["scalar code"] * each, report.step["work"] * each, [words]
    fitted = roofline.FITTED.get(given["chip"], roofline.FITTED["v5e"])
    work = float(np.maximum(kernel.mxu_s / fitted.mxu, kernel.vpu_s).mean()) * given["clock"]
    notes = [f"Work and scalar code: {vocabulary.MODEL}."]
    if report is not None and not report.ok:
        notes.append(f"This kernel is {report.refusal}.")
    return fitted.issue_s * given["clock"], work, notes


def _operands(call: grid.Call) -> tuple[grid.Operand, ...]:
    """Return the operands of the first pipeline in the kernel's body, or else those of the call."""
    if not grid.has_copies_by_hand(call):
        return call.operands
    try:
        return next((pipeline.operands for pipeline in grid.inner_pipelines(call)), call.operands)
    except grid.UnreadableCall:
        return call.operands


def _moves(call: grid.Call) -> list[str]:
    """Say which blocks move, and how often."""
    if grid.has_copies_by_hand(call) and _operands(call) is call.operands:
        return ["It copies by hand: the chart assumes evenly spaced copies and two buffers."]
    said = []
    for operand in _operands(call):
        if not operand.pipelined or operand.role == "prefetch":
            continue
        moved, way = (operand.written, "out") if operand.role == "output" else (operand.fetched, "in")
        times, size = int(moved.sum()), text.size(int(np.max(operand.block_bytes)))
        often = "stays" if times == 1 else "each step" if times == len(moved) else f"{times:,} of {len(moved):,} steps"
        said.append(f"{operand.name} {way}: {size}, {often}")
    return [f"Blocks: {'; '.join(said)}."]
