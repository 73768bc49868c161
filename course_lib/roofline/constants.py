"""The fitted constants. ``tools/bench_model.py --fit`` prints them again from docs/measured.csv; a test compares.

Published timings alone cannot tell the latency of a copy from the core's own work in a step: in every one of them all
steps copy, with two buffers, so that a longer latency and less work fit as well. So the work is the compiler's, and
the latency is what the timings then leave: less than the compiler's, whose simulator is 1.4 times too slow for blocks
of 128. docs/measured.md says which rows rule which constant.
"""

import dataclasses

from course_lib import chips

# Cycles that a copy takes beside its bytes, HBM to VMEM and VMEM to HBM, predicted (compiler): kernels that copy one
# block after another, 4 KiB to 8 MiB, simulated by libtpu 0.0.48.1. A v4 it does not simulate.
LATENCY_CYCLES = {"v5e": (1142, 448), "v5p": (683, 640), "v6e": (562, 470), "tpu7x": (708, 610)}
# Cycles a second. Where chips knows a clock in one way only, a likely one: good enough for a latency.
_LIKELY_CLOCK_HZ = {"v6e": 1.75e9, "tpu7x": 2.2e9}
CLOCK_HZ = {chip: chips.chip(chip).clock_hz or _LIKELY_CLOCK_HZ[chip] for chip in LATENCY_CYCLES}
# Cycles in which the core issues something, in a step of a product in blocks of 128 on a v5e, predicted (compiler).
ISSUE_CYCLES = 154


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fitted:
    """What no data sheet tells about a chip."""

    issue_s: float  # seconds of the core in a step beside arithmetic: issuing code, starting and awaiting copies
    read_s: float  # seconds a copy from HBM to VMEM takes beside its bytes: its latency
    write_s: float  # the same from VMEM to HBM
    hbm: float  # share of chips.Chip.program_bandwidth that copies reach
    mxu: float  # share of the MXU's peak that products reach

    def least_step_s(self, buffers: int = 2) -> float:
        """Seconds of a step that reads, however little, and computes nothing: the price of a step."""
        return max(self.issue_s, (self.read_s + self.issue_s) / buffers)

    @property
    def step_s(self) -> float:
        """The same with two buffers."""
        return self.least_step_s()


def latency(share: float, *, chip: str = "v5e") -> dict[str, float]:
    """``read_s`` and ``write_s`` of Fitted: a share of what the compiler's simulator counts."""
    read, write = LATENCY_CYCLES[chip]
    return {"read_s": share * read / CLOCK_HZ[chip], "write_s": share * write / CLOCK_HZ[chip]}


# The share of the simulator's latency that the timings of a v5e leave. The other chips have its share: of them no
# timing of small blocks was at hand.
LATENCY = 0.65

FITTED = {
    "v5e": Fitted(issue_s=0.10e-6, hbm=0.89, mxu=0.95, **latency(LATENCY, chip="v5e")),
    "v5p": Fitted(issue_s=0.16e-6, hbm=0.84, mxu=0.95, **latency(LATENCY, chip="v5p")),
    "v6e": Fitted(issue_s=0.79e-6, hbm=0.82, mxu=0.95, **latency(LATENCY, chip="v6e")),
    "tpu7x": Fitted(issue_s=0.44e-6, hbm=0.73, mxu=0.82, **latency(LATENCY, chip="tpu7x")),
}

# What a call costs the host, where a call was timed from Python: the JAX documentation's notebooks, on a v5e.
DISPATCH_S = 109e-6

# Rows left out of the fit: how many, and the median and largest relative error of their predictions.
HELD_OUT = {
    "v5e": (24, 0.016, 0.126),
    "v5p": (15, 0.042, 0.132),
    "v6e": (15, 0.035, 0.236),
    "tpu7x": (15, 0.049, 0.095),
}
