"""The density at which a block-sparse matmul takes as long as a dense one."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.compute import Compute, Formula

CLOCK, PEAK = 1.5e9, 197e12


def _counted(side: int, width: int, cycles: float, clock: float, peak: float) -> float:
    """Return the break-even density for 16 x 16 blocks and 4 panels, from the times of the whole matmuls."""
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
                        "A matrix has no more than all of its blocks. If the sparse kernel is faster even then, the "
                        "answer is 1."
                    ),
                    "min(1, side * side * width * clock / (peak * cycles))": (
                        "The peak counts a multiplication and an addition as two operations."
                    ),
                    "min(1, 2 * side * width * clock / (peak * cycles))": (
                        "How many FLOPs does the matmul of side x side by side x width take?"
                    ),
                    "min(1, 2 * side * side * side * clock / (peak * cycles))": (
                        "A block is multiplied by `width` columns of b, and not by `side` of them."
                    ),
                    "min(1, peak * cycles / (2 * side * side * width * clock))": (
                        "Your ratio is upside down: at the break-even density the stored blocks take as long as all "
                        "blocks take at the peak."
                    ),
                    "min(1, 2 * side * side * width / (peak * cycles))": (
                        "These are cycles and not seconds, so divide them by the clock."
                    ),
                    "min(1, 2 * side * side * width * cycles / (peak * clock))": (
                        "The more cycles a block takes, the lower the density at which the dense matmul wins."
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
        why="it is the time of a block at the peak over its time here.",
    ),
    hints=(
        "How many seconds does the kernel take for one stored block and one panel, and how many would their FLOPs "
        "take at the peak?",
        "A dense matmul of Z blocks takes Z * 2 * side * side * width / peak seconds, and the sparse kernel takes "
        "density * Z * cycles / clock. Set the two equal.",
        "Z cancels, so the density is (2 * side * side * width / peak) / (cycles / clock), but never more than 1.",
    ),
    points=2,
)
