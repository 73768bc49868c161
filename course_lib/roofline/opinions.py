"""Two predictions for one function, the model's and the compiler's, and why they differ if they do."""

import dataclasses
from collections.abc import Callable

from course_lib import chips, compiler, text, vocabulary
from course_lib.roofline.constants import FITTED, LATENCY_CYCLES
from course_lib.roofline.prediction import Prediction, predict

_NEAR = 0.1  # of the compiler's time
_WAITS = 0.3  # of the compiler's cycles: if more of them wait, waiting for copies dominates


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Opinions:
    """The results of ``predict`` and ``compiler.compile_tpu`` for the same function, arguments and chip."""

    model: Prediction
    compiler: compiler.Report

    @property
    def ratio(self) -> float | None:
        """The model's time over the compiler's; None if the compiler gave none."""
        return self.model.seconds / self.compiler.seconds if self.compiler.seconds else None

    @property
    def remark(self) -> str:
        """Which prediction is longer by more than a tenth, and the likely reason; "" if they agree."""
        if self.ratio is None or abs(self.ratio - 1) <= _NEAR:
            return ""
        more = text.percent(max(self.ratio, 1 / self.ratio) - 1)
        if self.ratio < 1:
            return f"The compiler says {more} more than the model. {_slow_compiler(self.model, self.compiler)}"
        return f"The model says {more} more than the compiler. {_slow_model(self.model, self.compiler)}"

    def __str__(self) -> str:
        its = text.duration(self.compiler.seconds) if self.compiler.seconds else "no time"
        lines = [f"{text.duration(self.model.seconds)} {vocabulary.MODEL}, {its} {vocabulary.COMPILER}."]
        return text.folded("\n".join([*lines, *([self.remark] if self.remark else [])]))

    __repr__ = __str__


def opinions(fn: Callable, *args, chip: str = "v5e") -> Opinions:
    """Return both predictions for ``fn(*args)``; ``args`` are arrays or ShapeDtypeStructs.

    Raises what ``predict`` raises, and compiler.Unavailable if there is no compiler for the chip.
    """
    return Opinions(model=predict(fn, *args, chip=chip), compiler=compiler.compile_tpu(fn, *args, chip=chip))


def _slow_compiler(model: Prediction, report: compiler.Report) -> str:
    by_cycles = report.bound in (vocabulary.CORE, vocabulary.WAITING)
    if by_cycles and report.waiting > _WAITS and report.chip in LATENCY_CYCLES:
        its, clock = LATENCY_CYCLES[report.chip][0], chips.chip(report.chip).clock_hz
        ours = FITTED[report.chip].read_s
        simulated = f"{text.duration(its / clock)}" if clock else f"{its:,} cycles"
        return (
            f"Most of its cycles wait for copies. In the simulator a copy takes {simulated}, however small it is, but "
            f"published timings leave {text.duration(ours)}. With small blocks, trust the model."
        )
    if (report.hbm_bytes or 0) > (1 + _NEAR) * model.hbm_bytes:
        return (
            f"The model fuses everything that XLA runs and counts {model.hbm_bytes:,} bytes; the program moves "
            f"{report.hbm_bytes:,}. Trust the compiler."
        )
    if not model.steps and model.products:
        return (
            "The model hides all copies of XLA's own matmul behind its arithmetic. In the program, the first copies "
            "have nothing to hide behind. With small arrays, trust the compiler."
        )
    return (
        "The model counts operations at the peak of their unit. The compiler knows the program: operations that wait "
        "for one another, spills, scalar code. Inside a kernel, trust the compiler."
    )


def _slow_model(model: Prediction, report: compiler.Report) -> str:
    if report.bound in (vocabulary.HBM, vocabulary.BOTH):
        share = text.percent(FITTED.get(model.chip, FITTED["v5e"]).hbm)
        return (
            f"The compiler's time is that of the bytes at the data sheet's bandwidth. In the model, copies reach "
            f"{share} of it, as in published timings, and take their latency as well. Trust the model."
        )
    return (
        "In the simulator, all copies run at once, each at full speed. In the model, they share the HBM, and a step "
        "costs what it costs in published timings of matmuls. Where copies matter, trust the model."
    )
