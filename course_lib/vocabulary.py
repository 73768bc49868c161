"""The words that predictions, reports, plots, verdicts and lessons share: what binds a kernel, whose figure it is.

The core computes one block while the copies of the next run beside it. So a kernel takes about the longer of two
times, that of its core and that of its bytes, and the longer one binds. A step has a price of its own as well: issue,
and the latency of copies that two buffers do not hide. A test finds every place that says it in other words.
"""

COMPUTE = "compute"  # the core, which spends most of its time on arithmetic: of the MXU, or of the VPU
STEPS = "grid steps"  # the price of steps: the latency of copies that the buffers do not hide, and starting them
CORE = "core"  # the core of a compiled program, whose cycles hold arithmetic, waiting for units and starting copies
WAITING = "waiting for copies"  # the same, where most of these cycles wait for copies: their latency is not hidden
HBM = "HBM"  # the copies between HBM and VMEM
BOTH = "both"  # core and HBM take equally long, within 5 %
BOUNDS = (COMPUTE, HBM, STEPS, CORE, WAITING, BOTH)

# Whose figure it is. Where there is no room (a legend, a column), "compiler", "model" and "measured" stand alone.
COMPILER = "predicted (compiler)"  # by the simulator inside the TPU's compiler, of the compiled program
MODEL = "predicted (model)"  # by ``roofline``: three roofs, and constants fitted on published timings
MEASURED = "measured"  # by a clock, on a chip; whose clock and which chip stands beside it

_NEAR = 0.05  # of the longer time: two that are nearer than this both bind
_MOST = 0.5  # of a program's cycles
_BOUND_BY = {CORE: "the core", BOTH: "both core and HBM"}  # the others as they are

# What helps where steps wait for copies, in a grid of many.
AGAINST_WAITING = "Fewer, larger blocks would help, or more buffers"


def bound_of_program(core_s: float, hbm_s: float, waiting: float = 0.0) -> str:
    """What binds a compiled program, from the seconds of its cycles and of its HBM traffic: "core", "HBM", "both".

    ``waiting``: the share of the cycles that wait for copies, 0 to 1. Where that is most of them the core is idle, and
    what binds is "waiting for copies"; or "HBM", where the bytes take as long.
    """
    if abs(core_s - hbm_s) < _NEAR * max(core_s, hbm_s):
        return HBM if waiting > _MOST else BOTH
    if core_s < hbm_s:
        return HBM
    return WAITING if waiting > _MOST else CORE


def bound_of_roofs(compute_s: float, hbm_s: float, steps_s: float = 0) -> str:
    """Which of three roofs binds, from the seconds of each alone: "compute", "HBM", "grid steps", or "both".

    With small blocks arithmetic and the price of the steps add up; where their sum binds, the larger part does.
    """
    bound = bound_of_program(compute_s + steps_s, hbm_s)
    if bound == CORE:
        return COMPUTE if compute_s >= steps_s else STEPS
    return bound


def bound_by(bound: str) -> str:
    """The same in a sentence: "bound by HBM", "bound by waiting for copies", "bound by both core and HBM"."""
    return f"bound by {_BOUND_BY.get(bound, bound)}"
