"""The head size at which recomputing the weights takes as long as keeping them."""

from course_lib.checks.exercise import Exercise
from course_lib.checks.kinds.compute import Compute, Formula


def _by_times(itemsize: int, peak: float, bandwidth: float) -> float:
    """Return the D at which both times are equal for a head of 1024 positions, found by halving an interval."""
    low, high = 0.0, 1e9
    weights = 1024 * 1024
    keeps = 2 * weights * itemsize / bandwidth
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if weights * 2 * middle / peak < keeps else (low, middle)
    return low


EXERCISE = Exercise(
    id="13.8",
    title="Compute: store the weights, or recompute them?",
    kind="compute",
    defines="head_size",
    asks=Compute(
        takes=("itemsize", "peak", "bandwidth"),
        results=(
            Formula(
                name="the head size",
                unit="",
                tolerance=0.001,
                formula="itemsize * peak / bandwidth",
                proof=_by_times,
                near={
                    "itemsize * peak / (2 * bandwidth)": "The weights are written and then read, so they pass twice.",
                    "2 * itemsize * peak / bandwidth": (
                        "A score takes 2 D FLOPs, namely D multiplications and D additions."
                    ),
                    "peak / bandwidth": "How many bytes does it take to store one weight?",
                    "2 * peak / bandwidth": "A weight has itemsize bytes, and not always two.",
                    "bandwidth / (itemsize * peak)": "Your formula is upside down, because D grows with the peak.",
                    "itemsize * bandwidth / peak": (
                        "Your formula is upside down, because D grows with the peak and not with the bandwidth."
                    ),
                },
            ),
        ),
        cases=((2, 197e12, 819e9), (4, 197e12, 819e9), (2, 918e12, 1640e9), (1, 394e12, 819e9)),
        why="D is 481 in bfloat16 on a v5e, so with heads of 128 recomputing is faster.",
    ),
    hints=(
        "How many bytes pass to keep one weight, and how many FLOPs does it take to recompute its score?",
        "Compare 2 * itemsize / bandwidth seconds with 2 * D / peak seconds.",
        "Set the two times equal; the twos cancel, and D = itemsize * peak / bandwidth.",
    ),
    points=1,
)
