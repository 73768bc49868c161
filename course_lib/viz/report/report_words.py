"""A Report in one sentence: whether it compiles, how long it takes, what binds it, whether it spills."""

from course_lib import text, vocabulary
from course_lib.compiler.report import Report, floor_words, step_words

_MUCH = 0.3  # share of its cycles: that much waiting is worth mentioning


def sentence(report: Report) -> str:
    """Return the verdict; what the report does not hold is left out, or said to be missing."""
    if not report.ok:
        return refusal(report)
    parts = _of_kernels(report) if report.kernels else [_predicted(report), _bound_words(report), _spills(report)]
    return f"Compiles for {report.chip}: {'; '.join(part for part in parts if part)}."


def _of_kernels(report: Report) -> list[str]:
    """Return the decisive figures of GPU kernels: those of the one with most registers."""
    ours = [kernel for kernel in report.kernels if kernel.kind == "kernel"] or list(report.kernels)
    most = max(ours, key=lambda kernel: kernel.registers)
    blocks, whose = most.blocks_on(report.chip), f"{most.name}: " if len(report.kernels) > 1 else ""
    held = "" if blocks is None else f"an SM holds {text.counted(blocks, 'block')}"
    slow = "each wgmma waits for the one before it" if any(kernel.serialized for kernel in ours) else ""
    return [f"{whose}{text.counted(most.registers, 'register')} a thread", held, _spills(report), slow]


def refusal(report: Report) -> str:
    """Say why the compiler refused, and what to try."""
    return " ".join(refusal_parts(report))


def refusal_parts(report: Report) -> list[str]:
    """Say the same in up to three parts: that it refused, what is wrong, what to try next."""
    said = f"Refused by the {report.chip} compiler."
    if report.stage in ("trace", "no answer"):
        said = f"For {report.chip}: {report.refusal}."
    if report.error is None:
        return [said, "It gave no reason."]
    return [said, report.error.what, *([f"Next: {report.error.next}"] if report.error.next else [])]


def extrapolated(report: Report) -> str:
    """Say how cycles were extrapolated; "" if the whole grid was simulated."""
    line = report.extrapolation
    if line is None:
        return ""
    return (
        f"Cycles are extrapolated: {text.count(line.small[0])} and {text.count(line.large[0])} of "
        f"{text.count(line.steps)} grid steps were simulated, and each further step counts "
        f"{text.significant(line.cycles_per_step, 4)} cycles."
    )


def of_a_step(report: Report) -> str:
    """Say what a grid step consists of; "" if unknown."""
    return f"A step takes {words}." if (words := step_words(report)) else ""


def floor(report: Report) -> str:
    """Say why the time is longer than the cycles; "" if it is not."""
    return f"{words[0].upper()}{words[1:]}." if (words := floor_words(report)) else ""


def _predicted(report: Report) -> str:
    if report.cycles is None:
        return "no cycles were predicted"
    how = ", extrapolated" if report.extrapolation else ""
    cycles = text.counted(report.cycles, "cycle")
    if report.seconds is not None:
        return f"{cycles}, {text.duration(report.seconds)}, {vocabulary.COMPILER}{how}"
    return f"{cycles}, {vocabulary.COMPILER}{how}; no time, because the clock of {report.chip} is not known"


def _bound_words(report: Report) -> str:
    if report.cycles is None:
        return ""
    if report.bound is None:
        return "HBM traffic was not counted" if report.hbm_bytes is None else ""
    share, said = f", {text.percent(report.waiting)} of its cycles", vocabulary.bound_by(report.bound)
    if report.bound == vocabulary.WAITING:
        return said + share
    much = report.bound == vocabulary.CORE and report.waiting >= _MUCH
    return f"{said}{share} {vocabulary.WAITING}" if much else said


def _spills(report: Report) -> str:
    if report.spills is None:
        return ""
    fills = f", {text.counted(report.fills, 'fill')}" if report.spills and report.fills else ""
    return text.counted(report.spills, "spill") + fills
