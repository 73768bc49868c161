"""The fitted constants. ``benchmarks/bench_model.py --fit`` recomputes them from docs/measured.csv; a test compares.

Published timings alone cannot separate the latency of a copy from the core's own work in a step: in all of them every
step copies, with two buffers, so a longer latency and less work fit just as well. The work is therefore the compiler's,
and the latency is what the timings then leave. It is shorter than the compiler's, whose simulator is 1.4 times too slow
for blocks of 128. docs/measured.md says which rows determine which constant.
"""

import dataclasses

from course_lib import chips

# Cycles that a copy takes in addition to its bytes, HBM to VMEM and VMEM to HBM, predicted (compiler): for kernels that
# copy one block after another, 4 KiB to 8 MiB, simulated by libtpu 0.0.48.1, which does not simulate a v4.
LATENCY_CYCLES = {"v5e": (1142, 448), "v5p": (683, 640), "v6e": (562, 470), "tpu7x": (708, 610)}
# Cycles per second. Where chips has only one source for a clock, a likely value is good enough for a latency.
_LIKELY_CLOCK_HZ = {"v6e": 1.75e9, "tpu7x": 2.2e9}
CLOCK_HZ = {chip: chips.chip(chip).clock_hz or _LIKELY_CLOCK_HZ[chip] for chip in LATENCY_CYCLES}
# Cycles in which the core issues something, in one step of a v5e matmul with blocks of 128, predicted (compiler).
ISSUE_CYCLES = 154


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fitted:
    """What no data sheet says about a chip."""

    issue_s: float  # seconds of the core in a step besides arithmetic: issuing code, starting and awaiting copies
    read_s: float  # latency of a copy from HBM to VMEM: its seconds in addition to its bytes
    write_s: float  # the same from VMEM to HBM
    hbm: float  # share of chips.Chip.program_bandwidth that copies reach
    mxu: float  # share of the MXU's peak that matmuls reach

    def least_step_s(self, buffers: int = 2) -> float:
        """Return the cost of a step in seconds: one that reads, however little, and computes nothing."""
        return max(self.issue_s, (self.read_s + self.issue_s) / buffers)

    @property
    def step_s(self) -> float:
        """Cost of a step in seconds, with two buffers."""
        return self.least_step_s()


def latency(share: float, *, chip: str = "v5e") -> dict[str, float]:
    """Return ``read_s`` and ``write_s`` of Fitted as a share of the latency in the compiler's simulator."""
    read, write = LATENCY_CYCLES[chip]
    return {"read_s": share * read / CLOCK_HZ[chip], "write_s": share * write / CLOCK_HZ[chip]}


# The share of the simulator's latency that the timings of a v5e leave. The other chips use it too, because no timings
# of small blocks were available for them.
LATENCY = 0.65

FITTED = {
    "v5e": Fitted(issue_s=0.10e-6, hbm=0.89, mxu=0.95, **latency(LATENCY, chip="v5e")),
    "v5p": Fitted(issue_s=0.16e-6, hbm=0.84, mxu=0.95, **latency(LATENCY, chip="v5p")),
    "v6e": Fitted(issue_s=0.79e-6, hbm=0.82, mxu=0.95, **latency(LATENCY, chip="v6e")),
    "tpu7x": Fitted(issue_s=0.44e-6, hbm=0.73, mxu=0.82, **latency(LATENCY, chip="tpu7x")),
}

# What a call costs on the host when it is timed from Python: the JAX documentation's notebooks, on a v5e.
DISPATCH_S = 109e-6

# Rows left out of the fit: their number, and the median and largest relative error of their predictions.
HELD_OUT = {
    "v5e": (24, 0.016, 0.126),
    "v5p": (15, 0.042, 0.132),
    "v6e": (15, 0.035, 0.236),
    "tpu7x": (15, 0.049, 0.095),
}
