"""What the compiler said about a function, as plain data in one Report; ``viz`` shows it in a notebook."""

import collections
import dataclasses
import functools

from course_lib import chips, cost, errors, text, vocabulary
from course_lib.compiler import operations
from course_lib.compiler.gpu_kernel import GpuKernel

_ROUNDED = 0.005  # of a time: smaller differences do not count
_MANY = 8  # steps: with fewer, the first and the last copy are much of the waiting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bundle:
    """One VLIW instruction word: the instructions that all units of the core get in one cycle."""

    op: str
    address: int
    depth: int  # how many loops it is in
    label: str = ""  # "LB" opens a loop body, "LH" a loop header, as libtpu marks them
    instructions: tuple[str, ...] = ()
    slots: dict[str, int] = dataclasses.field(default_factory=dict)  # unit -> slots filled
    places: tuple[operations.Place | None, ...] = ()  # of each instruction, if the compiler was given source locations

    @functools.cached_property
    def operations(self) -> tuple[operations.Operation, ...]:
        """Operations that the bundle starts, without the compiler's remarks that look like instructions."""
        return operations.read(self.instructions, self.places)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loop:
    """A loop of a program: bundles ``first`` to ``last``, in listing order, run ``turns`` times in a row."""

    first: int
    last: int
    turns: int | None  # None if it depends on data, or cannot be determined


@dataclasses.dataclass(frozen=True, kw_only=True)
class Extrapolation:
    """Cycles of a large grid, on the straight line through the simulations of two smaller ones."""

    steps: int  # of the real grid
    small: tuple[int, int]  # (steps, simulated cycles)
    large: tuple[int, int]

    @property
    def cycles_per_step(self) -> float:
        return (self.large[1] - self.small[1]) / (self.large[0] - self.small[0])

    @property
    def cycles(self) -> int:
        return round(self.large[1] + (self.steps - self.large[0]) * self.cycles_per_step)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Op:
    """One kernel or XLA fusion of the compiled program. Figures are None if the compiler gave none."""

    name: str
    kind: str  # "kernel" for a Pallas kernel, else XLA's own word: "fusion", "dot", "copy" ...
    cycles: int | None = None
    hbm_bytes: int | None = None
    seconds: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Report:
    """What the compiler said. Figures it did not give are None (or empty), and ``notes`` says why.

    Nothing here is measured: cycles come from the compiler's own simulator, seconds from cycles, HBM bytes and the
    chip's rates.
    """

    name: str
    chip: str
    ok: bool
    error: errors.Explanation | None = None
    stage: str = ""  # where it failed, if not ok: "trace" (before the compiler), "compile", or "no answer"
    cycles: int | None = None  # predicted, all kernels and fusions together
    seconds: float | None = None  # predicted: for each op the larger of cycles / clock and HBM bytes / bandwidth
    hbm_bytes: int | None = None  # moved between HBM and VMEM
    flops: int | None = None
    vmem_bytes: int | None = None  # allocated by the compiler
    vmem_limit: int | None = None
    vmem: tuple[cost.Allocation, ...] = ()
    bundles: int | None = None  # VLIW instruction words in the program
    slots: dict[str, float] = dataclasses.field(default_factory=dict)  # unit -> share of its slots filled, 0 to 1
    spills: int | None = None  # stores of registers that do not fit: to VMEM, or a GPU thread's local memory
    fills: int | None = None  # loads that bring them back
    code_bytes: int | None = None  # size of the compiled program
    time_split: dict[str, int] = dataclasses.field(default_factory=dict)  # critical path: what it waits for -> cycles
    steps: int | None = None  # of the grid, if the function is one kernel with a grid and nothing else
    ops: tuple[Op, ...] = ()
    kernels: tuple[GpuKernel, ...] = ()  # for a GPU: what ptxas compiled
    listing: tuple[Bundle, ...] = ()
    extrapolation: Extrapolation | None = None
    notes: tuple[str, ...] = ()
    hlo: str = ""  # XLA's optimized program, as XLA writes it
    versions: str = ""

    @property
    def core_seconds(self) -> float | None:
        """Seconds that the core needs for its cycles; None if the cycles or the chip's clock are not known."""
        return None if self.cycles is None else _core_seconds(self.cycles, chips.chip(self.chip))

    @property
    def hbm_seconds(self) -> float | None:
        """Seconds that the HBM traffic takes at full speed; None if it was not counted."""
        return None if self.hbm_bytes is None else _hbm_seconds(self.hbm_bytes, chips.chip(self.chip))

    @property
    def step(self) -> dict[str, float]:
        """Average cycles of a grid step: "work", "scalar code" and "waiting for copies"; {} if not known.

        The core's own work includes waiting for its units. Scalar code is both the pipeline's (index maps, starting and
        awaiting copies, the loop) and the kernel's; the simulator does not separate them.
        """
        if not self.steps or not self.time_split:
            return {}
        waiting, scalar = self.time_split.get("DMA wait", 0), self.time_split.get("scalar", 0)
        parts = {"work": sum(self.time_split.values()) - waiting - scalar, "scalar code": scalar}
        return {name: cycles / self.steps for name, cycles in {**parts, "waiting for copies": waiting}.items()}

    @property
    def waiting(self) -> float:
        """The share of the critical path that waits for copies between HBM and VMEM, 0 to 1; 0 if not known."""
        total = sum(self.time_split.values())
        return self.time_split.get("DMA wait", 0) / total if total else 0.0

    @property
    def bound(self) -> str | None:
        """What determines the predicted time: "core", "waiting for copies", "HBM", "both"; None if not known.

        A program takes the longer of its cycles and its HBM traffic at full speed. If several ops run one after
        another, this holds for each of them, and the one that binds for most of the time counts. The words are those of
        ``course_lib.vocabulary``.
        """
        if self.core_seconds is None or self.hbm_seconds is None:
            return None
        bound = vocabulary.bound_of_program(self.core_seconds, self.hbm_seconds, self.waiting)
        chip = chips.chip(self.chip)
        timed = [op for op in self.ops if op.seconds is not None]
        by_hbm = sum(
            op.seconds for op in timed if _hbm_seconds(op.hbm_bytes or 0, chip) > (_core_seconds(op.cycles, chip) or 0)
        )
        mostly_hbm = by_hbm > sum(op.seconds for op in timed) / 2
        return vocabulary.HBM if bound in (vocabulary.CORE, vocabulary.WAITING) and mostly_hbm else bound

    @property
    def refusal(self) -> str:
        """How a function that is not ok ended, in a few words."""
        if self.error is not None and self.error.name == "unreadable":
            return "not compiled"
        ends = {"trace": "it did not get as far as the compiler", "no answer": "no answer from the compiler"}
        return ends.get(self.stage, "refused by the compiler")

    def __str__(self) -> str:
        if not self.ok:
            return f"{self.name} for {self.chip}: {self.refusal}.\n{self.error or 'It gave no reason.'}{_wanted(self)}"
        lines = [f"{self.name} for {self.chip}: compiles ({self.versions})."]
        lines += text.table([row for row in _rows(self) if row[1]], indent="  ")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the report with pictures, for notebooks."""
        from course_lib.viz.report import report as pictures

        return pictures.html(self)


def _core_seconds(cycles: int | None, chip: chips.Chip) -> float | None:
    return cycles / chip.clock_hz if cycles is not None and chip.clock_hz else None


def _hbm_seconds(hbm_bytes: int, chip: chips.Chip) -> float:
    return hbm_bytes / chip.program_bandwidth


def _rows(report: Report) -> list[tuple[str, str]]:
    """Return (label, text) for each line of the terminal's view; lines with an empty text are left out."""
    return [
        (vocabulary.COMPILER, _predicted(report)),
        ("", _simulated(report.extrapolation)),
        ("time goes", _shares(report.time_split)),
        ("a step", step_words(report)),
        ("HBM", "" if report.hbm_bytes is None else f"{report.hbm_bytes:,} bytes moved"),
        ("", floor_words(report)),
        ("VMEM", _vmem(report)),
        ("slots", ", ".join(f"{unit} {share:.0%}" for unit, share in report.slots.items() if share >= 0.005)),
        ("program", _program(report)),
        *_of_kernels(report),
        *(("note", note) for note in report.notes),
    ]


def _of_kernels(report: Report) -> list[tuple[str, str]]:
    """Return the lines about each GPU kernel, under its name if there are several."""
    several = len(report.kernels) > 1
    rows = []
    for kernel in report.kernels:
        rows += [(kernel.kind, kernel.name)] if several else []
        rows += kernel.rows(report.chip)
    return rows


def step_words(report: Report) -> str:
    """Describe the parts of a grid step, and what helps if it mostly waits; "" if they are not known."""
    if not report.step:
        return ""
    parts = ", ".join(f"{cycles:,.0f} {name}" for name, cycles in report.step.items())
    whole = sum(report.step.values())
    waits = report.bound == vocabulary.WAITING and report.steps >= _MANY
    helps = f". {vocabulary.AGAINST_WAITING}" if waits else ""
    return f"{whole:,.0f} cycles on average of {report.steps:,}: {parts} that an earlier step asked for{helps}"


def floor_words(report: Report) -> str:
    """Explain why the time is longer than the cycles, which the simulator does not know; "" if it is not longer."""
    core, hbm = report.core_seconds, report.hbm_seconds
    if report.seconds is None or core is None or hbm is None or report.seconds < (1 + _ROUNDED) * core:
        return ""
    rate = text.byte_rate(chips.chip(report.chip).program_bandwidth)
    return (
        f"the cycles take {text.duration(core)}; but the simulator lets all copies run at once, each at full speed. "
        f"The bytes take {text.duration(hbm)} at {rate}, which is a lower bound on the time"
    )


def _predicted(report: Report) -> str:
    if report.cycles is None:
        return ""
    words = f"{report.cycles:,} cycles"
    if report.seconds is None:
        return words
    return f"{words}, {text.duration(report.seconds)}{_bound(report)}"


def _bound(report: Report) -> str:
    """Say what binds, with a remark if the time is not that of the cycles."""
    bound = f", {vocabulary.bound_by(report.bound)}" if report.bound else ""
    if sum(op.seconds is not None for op in report.ops) > 1:
        return f"{bound} (an op counts with its HBM traffic at full speed if that takes longer than its cycles)"
    return bound + (" (its traffic at full speed)" if report.bound == vocabulary.HBM else "")


def _simulated(line: Extrapolation | None) -> str:
    if line is None:
        return ""
    each = f"{line.cycles_per_step:,.0f}" if line.cycles_per_step >= 100 else f"{line.cycles_per_step:.3g}"
    return (
        f"a straight line through {line.small[0]:,} and {line.large[0]:,} of the {line.steps:,} steps, which were "
        f"simulated: {each} cycles for each further step"
    )


def _shares(split: dict[str, int]) -> str:
    total = sum(split.values()) or 1
    largest = sorted(split.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {cycles / total:.0%}" for name, cycles in largest if cycles >= total / 200)


def _vmem(report: Report) -> str:
    if report.vmem_bytes is None:
        return ""
    limit = f" (limit {text.size(report.vmem_limit)})" if report.vmem_limit else ""
    by_op = collections.defaultdict(collections.Counter)
    for piece in report.vmem:
        by_op[piece.op][piece.purpose] += piece.bytes
    purposes = max(by_op.values(), key=lambda op: op.total(), default={})  # ops run one after another
    parts = ", ".join(f"{purpose} {text.size(n)}" for purpose, n in purposes.items()) if len(purposes) > 1 else ""
    return f"{text.size(report.vmem_bytes)}{limit}" + (f": {parts}" if parts else "")


def _wanted(report: Report) -> str:
    """List the VMEM that a refused kernel would need, buffer by buffer, if that is known to be too much."""
    if not report.vmem:
        return ""
    rows = [
        (
            piece.name,
            text.size(piece.bytes),
            piece.purpose + (f", {piece.buffers} buffers" if piece.buffers > 1 else ""),
        )
        for piece in report.vmem
    ]
    head = f"It needs {text.size(report.vmem_bytes)} of VMEM, but may use only {text.size(report.vmem_limit)}:"
    return "\n".join(["", head, *text.table(rows, right={1}, indent="  ")])


def _program(report: Report) -> str:
    if not report.bundles:
        return ""
    code = f", {text.size(report.code_bytes)} of code" if report.code_bytes else ""
    return f"{report.bundles:,} bundles, {report.spills:,} spills, {report.fills:,} fills{code}"
