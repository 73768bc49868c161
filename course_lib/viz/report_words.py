"""A Report in one sentence: does it compile, how long will it take, what binds it, does it spill."""

from course_lib import chips, text
from course_lib.compiler.report import Report
from course_lib.viz import time_split

_NEAR = 0.05  # two bounds closer than this both bind


def sentence(report: Report) -> str:
    """The verdict. What the report does not hold is left out, or said to be missing."""
    if not report.ok:
        return refusal(report)
    parts = [_predicted(report), _bound_words(report), _spills(report)]
    return f"Compiles for {report.chip}: {'; '.join(part for part in parts if part)}."


def refusal(report: Report) -> str:
    """Why the compiler said no, and what to try."""
    return " ".join(refusal_parts(report))


def refusal_parts(report: Report) -> list[str]:
    """The same in up to three parts: that it said no, what is wrong, what to try next."""
    said = f"Refused by the {report.chip} compiler."
    if report.stage in ("trace", "no answer"):
        said = f"For {report.chip}: {report.refusal}."
    if report.error is None:
        return [said, "It gave no reason."]
    return [said, report.error.what, *([f"Next: {report.error.next}"] if report.error.next else [])]


def bound(report: Report) -> str | None:
    """What sets the predicted time: "hbm", "cycles", "both"; None where a figure for it is missing.

    A program takes the longer of cycles / clock and HBM bytes / bandwidth. Of several ops, one after another, each
    does so for itself: what binds them for most of the time counts.
    """
    core, hbm = core_seconds(report.chip, report.cycles), hbm_seconds(report.chip, report.hbm_bytes)
    if core is None or hbm is None:
        return None
    if abs(core - hbm) <= _NEAR * max(core, hbm):
        return "both"
    timed = [op for op in report.ops if op.seconds is not None]
    by_hbm = sum(
        op.seconds
        for op in timed
        if hbm_seconds(report.chip, op.hbm_bytes or 0) > core_seconds(report.chip, op.cycles or 0)
    )
    return "hbm" if hbm > core or by_hbm > sum(op.seconds for op in timed) / 2 else "cycles"


def core_seconds(chip: str, cycles: int | None) -> float | None:
    """Seconds that the core needs for its cycles; None where these or the clock are not known."""
    clock = chips.chip(chip).clock_hz
    return cycles / clock if cycles is not None and clock else None


def hbm_seconds(chip: str, hbm_bytes: int | None) -> float | None:
    """Seconds that HBM needs to move those bytes at full speed; None where they were not counted."""
    return hbm_bytes / chips.chip(chip).program_bandwidth if hbm_bytes is not None else None


def extrapolated(report: Report) -> str:
    """How cycles were had without simulating the whole grid; "" where it was simulated."""
    line = report.extrapolation
    if line is None:
        return ""
    return (
        f"Cycles are extrapolated: {text.count(line.small[0])} and {text.count(line.large[0])} of "
        f"{text.count(line.steps)} grid steps were simulated, and each further step counts "
        f"{text.significant(line.cycles_per_step, 4)} cycles."
    )


def _predicted(report: Report) -> str:
    if report.cycles is None:
        return "no cycles were predicted"
    how = " (extrapolated)" if report.extrapolation else ""
    cycles = f"predicted {text.counted(report.cycles, 'cycle')}{how}"
    if report.seconds is not None:
        return f"{cycles}, {text.duration(report.seconds)}"
    return f"{cycles}; no time, as the clock of {report.chip} is not known"


def _bound_words(report: Report) -> str:
    if report.cycles is None:
        return ""
    binding = bound(report)
    if binding == "hbm":
        return "bound by HBM traffic"
    if binding == "both":
        return "bound by HBM traffic and by the core alike"
    copies = time_split.share_of_copies(report.time_split)
    waiting = f", {text.percent(copies)} of them waiting for copies" if copies >= 0.3 else ""
    if binding == "cycles":
        return f"bound by the core's cycles{waiting}"
    return "HBM traffic was not counted" if report.hbm_bytes is None else ""


def _spills(report: Report) -> str:
    if report.spills is None:
        return ""
    fills = f", {text.counted(report.fills, 'fill')}" if report.spills and report.fills else ""
    return text.counted(report.spills, "spill") + fills
