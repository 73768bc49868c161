"""A comparison of several ways to compute the same thing: ours, and XLA's own."""

import dataclasses
from collections.abc import Callable

from course_lib import chips, text, vocabulary
from course_lib.compiler.gpu import compile_gpu
from course_lib.compiler.report import Report
from course_lib.compiler.tpu import compile_tpu

_GPU_HEAD = ("", "registers", "spills", "shared", "blocks of an SM", "wgmma", "TMA loads")
_HEAD = ("", "time", "ratio", "cycles", "HBM", "VMEM", "spills")


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Reports by name, in the order given. Times are predicted; ``ratio`` is relative to the fastest."""

    reports: dict[str, Report]

    @property
    def in_seconds(self) -> bool:
        """Whether ``cost`` is in seconds, which needs a chip with a known clock."""
        return any(report.seconds is not None for report in self.reports.values())

    def cost(self, name: str) -> float | None:
        """Return the predicted seconds of one report, or its cycles; None if they are not known."""
        return self.reports[name].seconds if self.in_seconds else self.reports[name].cycles

    @property
    def fastest(self) -> str | None:
        """Name with the shortest predicted time, or the fewest cycles on a chip whose clock is not known."""
        costs = {name: cost for name in self.reports if (cost := self.cost(name)) is not None}
        return min(costs, key=costs.get) if costs else None

    def ratio(self, name: str) -> float | None:
        """Return how many times as long as the fastest it takes; None if its time is not known."""
        cost = self.cost(name)
        return None if cost is None else cost / self.cost(self.fastest)

    def __str__(self) -> str:
        head, row = (_GPU_HEAD, self._gpu_row) if self._for_a_gpu() else (_HEAD, self._row)
        table = text.table([head, *(row(name) for name in self.reports)], right=range(1, len(head)))
        targets = sorted({report.chip for report in self.reports.values()})
        whose = "Compiled" if self._for_a_gpu() else vocabulary.COMPILER.capitalize()
        head = f"{whose} for {', '.join(targets)} ({next(iter(self.reports.values())).versions}):"
        return "\n".join([text.folded(head), *table, *map(text.folded, self._remarks())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the comparison with pictures, for notebooks."""
        from course_lib.viz.report import report as pictures

        return pictures.comparison_html(self.reports)

    def _row(self, name: str) -> tuple[str, ...]:
        report, ratio = self.reports[name], self.ratio(name)
        if not report.ok:
            return (name, "not compiled", *[""] * (len(_HEAD) - 2))
        return (
            name,
            "not known" if report.seconds is None else text.duration(report.seconds),
            "" if ratio is None else f"{ratio:.2f}",
            _count(report.cycles),
            "" if report.hbm_bytes is None else text.size(report.hbm_bytes),
            "" if report.vmem_bytes is None else text.size(report.vmem_bytes),
            _count(report.spills),
        )

    def _for_a_gpu(self) -> bool:
        return any(report.kernels for report in self.reports.values())

    def _gpu_row(self, name: str) -> tuple[str, ...]:
        """Return the figures of the kernel with the most registers, preferring Pallas kernels to XLA's fusions."""
        report = self.reports[name]
        if not report.ok or not report.kernels:
            return (name, "no kernel" if report.ok else "not compiled", *[""] * (len(_GPU_HEAD) - 2))
        most = max(report.kernels, key=lambda kernel: (kernel.kind == "kernel", kernel.registers))
        counts = (sum(k.instructions.get(what, 0) for k in report.kernels) for what in ("wgmma", "TMA loads"))
        blocks = most.blocks_on(report.chip)
        shared = "" if most.shared_bytes is None else text.size(most.shared_bytes)
        return (name, _count(most.registers), _count(report.spills), shared, _count(blocks), *map(_count, counts))

    def _remarks(self) -> list[str]:
        remarks = []
        for name, report in self.reports.items():
            if not report.ok:
                why = report.error
                remarks.append(f"{name}: {why.what}\nNext: {why.next}" if why else f"{name}: {report.refusal}.")
            if report.extrapolation is not None:
                line = report.extrapolation
                remarks.append(f"{name}: cycles of {line.steps:,} steps, from {line.small[0]:,} and {line.large[0]:,}.")
            remarks += [f"{name}: {note}" for note in report.notes]
        return remarks


def compare(functions: dict[str, Callable], *args, chip: str = "v5e", **options) -> Comparison:
    """Compile each function for ``chip`` with the same ``args``; ``options`` as in ``compile_tpu`` or ``compile_gpu``.

    Example: ``compare({"mine": matmul, "XLA": jnp.dot}, x, y)``. Raises ValueError if there is nothing to compare, and
    what ``compile_tpu`` raises.
    """
    if not isinstance(functions, dict) or not all(isinstance(name, str) for name in functions):
        raise ValueError('compare needs functions by name: pass a dictionary such as {"mine": f, "XLA": g}.')
    if not functions:
        raise ValueError('compare got no functions: pass a dictionary such as {"mine": f, "XLA": g}.')
    compile = compile_gpu if chip in chips.GPU_TARGETS else compile_tpu
    return Comparison(reports={name: compile(fn, *args, chip=chip, **options) for name, fn in functions.items()})


def _count(n: int | None) -> str:
    return "" if n is None else f"{n:,}"
