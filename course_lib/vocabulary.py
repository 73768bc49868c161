"""The words that predictions, reports, plots, verdicts and lessons share: what binds a kernel, and whose figure it is.

The core computes one block while the copies of the next block run, so a kernel takes about as long as the slower of the
two, and that one binds. Each grid step also has a cost of its own: issuing copies, and any copy latency that double
buffering does not hide. A test finds every place that uses other words.
"""

COMPUTE = "compute"  # the core, which spends most of its time on MXU or VPU arithmetic
STEPS = "grid steps"  # overhead per step: starting copies, and the copy latency that the buffers do not hide
CORE = "core"  # the core of a compiled program; its cycles include arithmetic, waits for units and the start of copies
WAITING = "waiting for copies"  # the core, if most of its cycles wait for copies whose latency is not hidden
HBM = "HBM"  # the copies between HBM and VMEM
BOTH = "both"  # core and HBM take equally long, within 5 %
BOUNDS = (COMPUTE, HBM, STEPS, CORE, WAITING, BOTH)

# The source of a figure. If there is no room (a legend, a column), "compiler", "model" and "measured" stand alone.
COMPILER = "predicted (compiler)"  # by the simulator inside the TPU's compiler, for the compiled program
MODEL = "predicted (model)"  # by ``roofline``: three roofs, with constants fitted to published timings
MEASURED = "measured"  # by a clock on a chip; the text beside it names both

_NEAR = 0.05  # of the longer time: if two times differ by less than this, both bind
_MOST = 0.5  # of a program's cycles
_BOUND_BY = {CORE: "the core", BOTH: "both core and HBM"}  # the other words are used unchanged

# Advice for grids of many steps that wait for copies.
AGAINST_WAITING = "Fewer, larger blocks would help, or more buffers"


def bound_of_program(core_s: float, hbm_s: float, waiting: float = 0.0) -> str:
    """Return what binds a compiled program, given the seconds of its cycles and of its HBM traffic.

    ``waiting`` is the share of the cycles that wait for copies, 0 to 1. The result is "core", "HBM" or "both". If most
    cycles wait, the core is idle and the result is "waiting for copies", or "HBM" if the traffic takes as long.
    """
    if abs(core_s - hbm_s) < _NEAR * max(core_s, hbm_s):
        return HBM if waiting > _MOST else BOTH
    if core_s < hbm_s:
        return HBM
    return WAITING if waiting > _MOST else CORE


def bound_of_roofs(compute_s: float, hbm_s: float, steps_s: float = 0) -> str:
    """Return which of three roofs binds, given the seconds of each: "compute", "HBM", "grid steps" or "both".

    With small blocks the time for arithmetic and the time for steps add up; if their sum binds, the larger part is
    named.
    """
    bound = bound_of_program(compute_s + steps_s, hbm_s)
    if bound == CORE:
        return COMPUTE if compute_s >= steps_s else STEPS
    return bound


def bound_by(bound: str) -> str:
    """Return what binds as a phrase: "bound by HBM", "bound by waiting for copies", "bound by both core and HBM"."""
    return f"bound by {_BOUND_BY.get(bound, bound)}"
