"""The limits on what a kernel may cost: HBM traffic, VMEM, cycles, time, spills, and the slots it must fill."""

import dataclasses
from collections.abc import Callable

from course_lib import compiler, cost, errors, grid, text, vocabulary
from course_lib.judges.trial import Trial
from course_lib.judges.verdict import Complaint, Verdict, complained, refused


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """The most that a kernel may cost; None: no limit.

    ``hbm_bytes`` and ``vmem_bytes`` are bytes, or functions of the arguments that return bytes. ``cycles``: as the
    compiler predicts them, for everything the function does. ``times_reference``: a multiple of the reference's
    predicted time when XLA compiles it for the same chip. ``slots``: unit of the core -> the least share (0 to 1) of
    its instruction slots that must be filled, as in ``Report.slots``.
    """

    hbm_bytes: int | Callable[..., int] | None = None
    vmem_bytes: int | Callable[..., int] | None = None
    cycles: int | None = None
    times_reference: float | None = None
    spills: int | None = None
    slots: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def needs_compiler(self) -> bool:
        """Whether anything is limited besides HBM traffic and VMEM, which are counted without the compiler."""
        limited = (self.cycles, self.times_reference, self.spills)
        return bool(self.slots) or any(limit is not None for limit in limited)


def budget_judge(fn: Callable, reference: Callable, *args, budget: Budget, chip: str = "v5e") -> Verdict:
    """Refuse a kernel that costs more than ``budget``: traffic and VMEM are counted, the rest is the compiler's."""
    return ask(Trial(fn, reference, args, chip), budget)


def ask(trial: Trial, budget: Budget) -> Verdict:
    """Return the budget judge's verdict."""
    args = trial.args
    try:
        walk = trial.whole_walk
        complaint = _traffic(walk, _limit(budget.hbm_bytes, args)) or _vmem(walk, _limit(budget.vmem_bytes, args))
    except Exception as error:  # it cannot be traced, or its copies cannot be counted
        return refused("budget", errors.explain(error), ran=False)
    if complaint:
        return complained("budget", complaint)
    if not budget.needs_compiler:
        return Verdict(judge="budget", passed=True)
    try:
        report, timed = trial.report, budget.times_reference is not None
        other = compiler.compile_tpu(trial.reference, *args, chip=trial.chip) if timed else None
    except compiler.Unavailable as error:
        return Verdict(judge="budget", passed=None, message=str(error))
    if not report.ok:
        return refused("budget", report.error)
    complaint = (
        _cycles(report, budget.cycles)
        or _time(report, other, budget.times_reference)
        or _spills(report, budget.spills)
        or _slots(report, budget)
    )
    if complaint:
        return complained("budget", complaint, report)
    return Verdict(judge="budget", passed=True, report=report)


def _limit(limit, args: tuple) -> int | None:
    return limit(*args) if callable(limit) else limit


def _traffic(walk: grid.Walk, limit: int | None) -> Complaint | None:
    """Report too many bytes between HBM and VMEM: which operand moves most of them, and how often."""
    if limit is None:
        return None
    total = sum(row.bytes for row in cost.traffic(walk))
    if total <= limit:
        return None
    most = _read_by_several(walk, total - limit) or most_traffic(walk)
    moves = f"It moves {text.size(total)} between HBM and VMEM; the budget is {text.size(limit)}."
    return Complaint(f"{moves} {most.what}", most.next)


def _read_by_several(walk: grid.Walk, excess: int) -> Complaint | None:
    """Report an argument that several kernels read, if reading it once would save the ``excess`` bytes."""
    if len(walk.calls) < 2:
        return None
    jaxpr = walk.jaxpr.jaxpr
    arguments = [(v.aval.shape, v.aval.dtype) for v in jaxpr.invars if hasattr(v.aval, "shape")]
    made = {(o.shape, o.dtype) for call in walk.calls for o in call.outputs}
    readers = [(o.shape, o.dtype) for call in walk.calls for o in call.inputs if o.pipelined]
    for shape, dtype in dict.fromkeys(readers):
        many = readers.count((shape, dtype))
        known = arguments.count((shape, dtype)) == 1 and (shape, dtype) not in made
        if known and many > 1 and (many - 1) * grid.stored_bytes(shape, dtype) >= excess:
            which = f"{dtype}[{','.join(map(str, shape))}]"
            return Complaint(
                f"{many} kernels each read the argument of {which}, {text.size(grid.stored_bytes(shape, dtype))}.",
                "do everything in one kernel, which may have several outputs: it reads each block once.",
            )
    return None


def most_traffic(walk: grid.Walk) -> Complaint:
    """Say which operand moves most bytes beyond its whole array once, how often, and what would reduce that.

    If none moves more than that, it is the one that moves most padding; without padding, the one that moves most bytes.
    """
    rows = [
        (row, next((o for o in call.operands if o.name == row.name), None), call)  # two kernels may have an o_ref
        for call in walk.calls
        for row in cost.traffic(dataclasses.replace(walk, calls=(call,)))
    ]

    def stored(array: grid.Operand | None) -> int:
        return grid.stored_bytes(array.shape, array.dtype) if array is not None else 0

    def waste(found: tuple[cost.Traffic, grid.Operand | None, grid.Call]) -> tuple[int, int, int]:
        row, array, _ = found
        padded = array is not None and bool(cost.padding_of(row, array))
        return max(0, row.bytes - stored(array)), padded * (row.bytes - row.payload), row.bytes

    worst, array, call = max(rows, key=waste)
    size = stored(array)
    again = f", {worst.bytes / size:.3g} times the whole array" if size and worst.bytes > size else ""
    does = "fetched" if worst.direction == "in" else "written back"
    often = "once" if worst.copies == 1 else f"{worst.copies:,} times"
    what = f"{worst.name} is {does} {often}: {text.size(worst.bytes)}{again}."
    if array is not None and (padded := cost.padding_of(worst, array)):
        return Complaint(f"{what} {padded}", cost.AGAINST_PADDING)
    if worst.copies == 1 and worst.direction == "in":
        return Complaint(what, f"make the block of {worst.name} smaller, so that it holds only what the kernel needs.")
    if call.scalars and worst.direction == "in":
        return Complaint(
            what,
            "a block is copied again whenever its index changes from one step to the next. Let the steps that use a "
            f"block of {worst.name} follow one another, and a step that needs none keep the block of the step before.",
        )
    return Complaint(
        what,
        "a block is copied again whenever its index changes from one step to the next: choose the order of the grid, "
        f"or larger blocks if you may, so that {worst.name} stays in VMEM.",
    )


def _vmem(walk: grid.Walk, limit: int | None) -> Complaint | None:
    if limit is None or cost.vmem_bytes(walk) <= limit:
        return None
    return Complaint(
        f"It needs {text.size(cost.vmem_bytes(walk))} of VMEM; the budget is {text.size(limit)}.\n" + table(walk),
        "make the largest buffer smaller: pipelined blocks count twice.",
    )


def table(walk: grid.Walk) -> str:
    """List the VMEM of the function's kernels, a line for each buffer, the largest first."""
    buffers = sorted(cost.vmem(walk), key=lambda b: -b.bytes)[:8]
    rows = [(b.name, _type(b), f"x {b.buffers}", text.size(b.bytes)) for b in buffers]
    return "\n".join(text.table(rows, right={3}, indent="  "))


def _type(buffer: cost.Allocation) -> str:
    return f"{buffer.dtype}[{','.join(map(str, buffer.shape))}]"


def _cycles(report: compiler.Report, most: int | None) -> Complaint | None:
    if most is None:
        return None
    if report.cycles is None:
        why = next((note for note in report.notes if note.startswith("no cycles")), "no cycles")
        return Complaint(
            f"The budget is {most:,} cycles, but the compiler gives no cycles for it: "
            f"{why.removeprefix('no cycles: ')}",
            "change what its simulator cannot handle: prepare lists before the call, for example.",
        )
    if report.cycles <= most:
        return None
    return Complaint(
        f"{vocabulary.COMPILER.capitalize()}: it takes {report.cycles:,} cycles; the budget is {most:,}."
        + _where_cycles_go(report),
        "count its grid steps and its bytes; the compiler's report shows where its cycles go.",
    )


def _where_cycles_go(report: compiler.Report) -> str:
    waits = max(report.time_split, key=report.time_split.get) if report.time_split else ""
    return f" Most of its cycles go to: {waits}." if waits else ""


def _time(report: compiler.Report, other: compiler.Report | None, times: float | None) -> Complaint | None:
    if times is None:
        return None
    mine, its = (report.seconds, other.seconds) if None not in (report.seconds, other.seconds) else (None, None)
    if mine is None:
        mine, its = report.cycles, other.cycles
    if mine is None or its is None or mine <= times * its:
        return None
    return Complaint(
        f"{vocabulary.COMPILER.capitalize()}: it takes {mine / its:.3g} times as long as the reference, which XLA "
        f"compiles; the budget is {times:g} times." + _where_cycles_go(report),
        "count its grid steps and its bytes; the compiler's report shows where its cycles go.",
    )


def _spills(report: compiler.Report, most: int | None) -> Complaint | None:
    if most is None or report.spills is None or report.spills <= most:
        return None
    return Complaint(
        f"The compiler spills {report.spills:,} vector registers to VMEM; the budget is {most:,}.",
        "keep fewer values alive at once: use a smaller block in the body, or a fori_loop over parts of it.",
    )


def _slots(report: compiler.Report, budget: Budget) -> Complaint | None:
    for unit, least in budget.slots.items():
        if unit not in report.slots:
            raise ValueError(
                f"slots={{{unit!r}: ...}}: there is no such unit. The units are: {', '.join(report.slots)}."
            )
        if report.slots[unit] < least:
            return Complaint(
                f"{report.slots[unit]:.0%} of the slots of {unit} are filled; at least {least:.0%} are required.",
                "find out what else fills the program: look at the report's slots and listing.",
            )
    return None
