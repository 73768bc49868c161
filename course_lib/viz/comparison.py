"""Several reports of the same work, one row each: predicted time, and what it is made of."""

from course_lib import errors
from course_lib.compiler import units
from course_lib.compiler.report import Report
from course_lib.viz import draw, terminal, verdict
from course_lib.viz.picture import Picture

_ROW, _NAME, _BAR = 46, 130, 420
_EMPTY = "No reports to compare."


def picture(reports: dict[str, Report]) -> Picture:
    """The picture in all its forms, for a notebook or a terminal."""
    return Picture(svg=svg(reports), text=text(reports))


def svg(reports: dict[str, Report]) -> str:
    """The rows as SVG, in the order given."""
    return draw.card(panel(reports), "Kernels compared", sentence(reports))


def panel(reports: dict[str, Report]) -> draw.Panel:
    """The rows with their sentence, to be part of a larger picture."""
    head = draw.paragraph(sentence(reports), size=13, bold=True)
    most = max((_cost(reports, report) or 0 for report in reports.values()), default=0)
    rows = []
    for name, report in reports.items():
        cost = _cost(reports, report)
        share = cost / most if cost and most else 0
        rows.append(_row(name, share, _value(reports, report), _facts(report)))
    return draw.stacked([head, *rows], 6)


def text(reports: dict[str, Report]) -> str:
    """The rows in block characters."""
    most = max((_cost(reports, report) or 0 for report in reports.values()), default=0)
    lines = [sentence(reports)]
    for name, report in reports.items():
        cost = _cost(reports, report)
        bar = terminal.bar(cost / most, 40) if cost and most else " " * 40
        lines.append(f"  {terminal.cut(name, 24):<24} {bar} {_value(reports, report)}")
        lines.append(f"      {_facts(report)}")
    return "\n".join(errors.folded(line) if "█" not in line else line for line in lines)


def sentence(reports: dict[str, Report]) -> str:
    """Which is the fastest, and how far behind the others are."""
    if not reports:
        return _EMPTY
    costs = {name: _cost(reports, report) for name, report in reports.items()}
    known = {name: cost for name, cost in costs.items() if cost is not None}
    if not known:
        return "None of these kernels has a predicted time to compare."
    best = min(known, key=known.get)
    missing = [name for name in costs if name not in known]
    tail = f"; no time for {', '.join(missing)}" if missing else ""
    value = _value(reports, reports[best])
    if len(known) == 1:
        return f"{best} is predicted to take {value}{tail}."
    behind = (_behind(name, cost, known[best]) for name, cost in known.items() if name != best)
    return f"{best} is predicted to be the fastest, {value}: {', '.join(behind)}{tail}."


def _behind(name: str, cost: float, best: float) -> str:
    words = units.compared(cost, best, "longer", "shorter")
    return f"{name} takes as long" if words == "the same" else f"{name} takes {words}"


def _cost(reports: dict[str, Report], report: Report) -> float | None:
    """Seconds; cycles where no report that compiles has seconds."""
    if any(r.seconds is not None for r in reports.values()):
        return report.seconds
    return report.cycles


def _value(reports: dict[str, Report], report: Report) -> str:
    """The cost in words."""
    if not report.ok:
        return "refused"
    cost = _cost(reports, report)
    if cost is None:
        return "no time"
    seconds = any(r.seconds is not None for r in reports.values())
    return units.duration(cost) if seconds else units.counted(cost, "cycle")


def _facts(report: Report) -> str:
    """The rest of a row: what binds, and the figures behind it."""
    if not report.ok:
        return report.error.what if report.error else "no reason given"
    binding = {"hbm": "HBM bound", "cycles": "cycle bound", "both": "HBM and cycle bound"}.get(verdict.bound(report))
    cycles = None if report.cycles is None else units.counted(report.cycles, "cycle")
    extrapolated = "extrapolated" if report.extrapolation else None
    hbm = None if report.hbm_bytes is None else f"HBM {units.size(report.hbm_bytes)}"
    vmem = None if report.vmem_bytes is None else f"VMEM {units.size(report.vmem_bytes)}"
    spills = None if report.spills is None else units.counted(report.spills, "spill")
    return ", ".join(part for part in (binding, cycles, extrapolated, hbm, vmem, spills) if part)


def _row(name: str, share: float, value: str, facts: str) -> draw.Panel:
    body = draw.line(0, 0, draw.INNER, 0, draw.TRACK) + draw.label(0, 20, name, _NAME - 10, bold=True)
    if share:
        body += draw.box(_NAME, 8, max(_BAR * share, 1), 14, draw.BLUE, title=f"{name}: {value}")
    left = _NAME + (_BAR * share + 10 if share else 0)
    body += draw.label(left, 20, value, 140, bold=True)
    return draw.Panel(body + draw.label(_NAME, 39, facts, draw.INNER - _NAME, fill=draw.MUTED), _ROW)
