"""Several Reports on the same work, one row each: predicted time, and what it consists of."""

from course_lib import text, vocabulary
from course_lib.compiler import Comparison
from course_lib.compiler.report import Report
from course_lib.viz.common import draw

_ROW, _NAME, _BAR = 46, 130, 420
_EMPTY = "No reports to compare."


def panel(reports: dict[str, Report]) -> draw.Panel:
    """Draw the rows under their sentence, in the order given, for a larger picture."""
    head, both = draw.paragraph(sentence(reports), size=13, bold=True), Comparison(reports=reports)
    rows = [_row(name, _share(both, name), _value(both, name), _facts(report)) for name, report in reports.items()]
    return draw.stacked([head, *rows], 6)


def sentence(reports: dict[str, Report]) -> str:
    """Say which is the fastest, and how far behind the others are."""
    if not reports:
        return _EMPTY
    both = Comparison(reports=reports)
    if both.fastest is None:
        return "None of these kernels has a predicted time to compare."
    missing = [name for name in reports if both.cost(name) is None]
    tail = f"; no time for {', '.join(missing)}" if missing else ""
    value = _value(both, both.fastest)
    others = [name for name in reports if name not in (both.fastest, *missing)]
    if not others:
        return f"{both.fastest} takes {value}, {vocabulary.COMPILER}{tail}."
    behind = ", ".join(_behind(both, name) for name in others)
    return f"{both.fastest} is the fastest, {value}, {vocabulary.COMPILER}: {behind}{tail}."


def _behind(both: Comparison, name: str) -> str:
    words = text.compared(both.cost(name), both.cost(both.fastest), "longer", "shorter")
    return f"{name} takes as long" if words == "the same" else f"{name} takes {words}"


def _share(both: Comparison, name: str) -> float:
    """Return the cost as a share of the highest; 0 if unknown."""
    most = max((both.cost(other) or 0 for other in both.reports), default=0)
    return (both.cost(name) or 0) / most if most else 0


def _value(both: Comparison, name: str) -> str:
    """Return the cost in words."""
    cost = both.cost(name)
    if cost is None:
        return "no time" if both.reports[name].ok else "not compiled"
    return text.duration(cost) if both.in_seconds else text.counted(cost, "cycle")


def _facts(report: Report) -> str:
    """Return the rest of a row: what binds, and the figures behind it."""
    if not report.ok:
        return report.error.what if report.error else "no reason given"
    binding = vocabulary.bound_by(report.bound) if report.bound else None
    cycles = None if report.cycles is None else text.counted(report.cycles, "cycle")
    extrapolated = "extrapolated" if report.extrapolation else None
    hbm = None if report.hbm_bytes is None else f"HBM {text.size(report.hbm_bytes)}"
    vmem = None if report.vmem_bytes is None else f"VMEM {text.size(report.vmem_bytes)}"
    spills = None if report.spills is None else text.counted(report.spills, "spill")
    return ", ".join(part for part in (binding, cycles, extrapolated, hbm, vmem, spills) if part)


def _row(name: str, share: float, value: str, facts: str) -> draw.Panel:
    body = draw.line(0, 0, draw.INNER, 0, draw.TRACK) + draw.label(0, 20, name, _NAME - 10, bold=True)
    if share:
        body += draw.box(_NAME, 8, max(_BAR * share, 1), 14, draw.BLUE, title=f"{name}: {value}")
    left = _NAME + (_BAR * share + 10 if share else 0)
    body += draw.label(left, 20, value, 140, bold=True)
    return draw.Panel(body + draw.label(_NAME, 39, facts, draw.INNER - _NAME, fill=draw.MUTED), _ROW)
