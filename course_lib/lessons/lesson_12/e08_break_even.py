"""The density at which a block-sparse product takes as long as a dense one."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.compute import Compute, Formula

CLOCK, PEAK = 1.5e9, 197e12


def _counted(side: int, width: int, cycles: float, clock: float, peak: float) -> float:
    """Return it for a matrix of 16 x 16 blocks and 4 panels, from whole times."""
    n, columns = 16 * side, 4 * width
    dense = 2 * n * n * columns / peak
    all_blocks = 256 * 4 * cycles / clock
    return min(1.0, dense / all_blocks)


EXERCISE = Exercise(
    id="12.8",
    title="Compute: break-even",
    kind="compute",
    defines="break_even",
    asks=Compute(
        takes=("side", "width", "cycles", "clock", "peak"),
        results=(
            Formula(
                name="the density",
                unit="",
                tolerance=1e-5,
                formula="min(1, 2 * side * side * width * clock / (peak * cycles))",
                proof=_counted,
                near={
                    "2 * side * side * width * clock / (peak * cycles)": (
                        "A matrix has no more than all of its blocks: where the sparse kernel is faster even then, the "
                        "answer is 1."
                    ),
                    "min(1, side * side * width * clock / (peak * cycles))": (
                        "The peak counts a multiplication and an addition as two."
                    ),
                    "min(1, 2 * side * width * clock / (peak * cycles))": (
                        "A block of side x side, times side x width: how many FLOPs is that?"
                    ),
                    "min(1, 2 * side * side * side * clock / (peak * cycles))": (
                        "A block meets `width` columns of b, and not `side`."
                    ),
                    "min(1, peak * cycles / (2 * side * side * width * clock))": (
                        "It is upside down: at the break-even density the stored blocks take as long as all of them "
                        "take at the peak."
                    ),
                    "min(1, 2 * side * side * width / (peak * cycles))": (
                        "cycles are no seconds yet: divide them by the clock."
                    ),
                    "min(1, 2 * side * side * width * cycles / (peak * clock))": (
                        "The more cycles a block takes, the sooner dense is faster."
                    ),
                },
            ),
        ),
        cases=(
            (128, 512, 1000, CLOCK, PEAK),
            (128, 512, 150, CLOCK, PEAK),
            (128, 1024, 1200, CLOCK, PEAK),
            (256, 512, 1300, CLOCK, PEAK),
            (128, 256, 60, CLOCK, PEAK),
            (128, 512, 1000, 940e6, 918e12),
        ),
        why="what a block takes at the peak, over what it takes here.",
    ),
    hints=(
        "Take one stored block and one panel. How many seconds does the kernel take for it, and how many would its "
        "FLOPs take at the peak?",
        "A dense product of Z blocks takes Z times 2 * side * side * width / peak seconds. The sparse kernel takes "
        "density * Z * cycles / clock. Set them equal.",
        "Z drops out: density = (2 * side * side * width / peak) / (cycles / clock), and never more than 1.",
    ),
    points=2,
)
