"""What a measurement is, as plain data: times of many runs, their median and spread, and how they were taken."""

import dataclasses

import numpy as np

from course_lib import text
from course_lib.bench.possible import Bound
from course_lib.text import folded


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Measured:
    """Times of a function on a real device, in seconds; never of a simulator, and never of a CPU."""

    name: str
    device: str  # its kind, as it calls itself: "TPU v5 lite"
    times: tuple[float, ...]  # seconds on the device of each round
    how: str  # which clock, and why
    copies: int  # of the arguments, used in turn
    bound: Bound | None  # the shortest possible time; None where the device's peaks are not known
    versions: str

    @property
    def seconds(self) -> float:
        """The median."""
        return float(np.median(self.times))

    @property
    def quartiles(self) -> tuple[float, float]:
        """A quarter of the rounds was faster than the first, a quarter slower than the second."""
        low, high = np.percentile(self.times, (25, 75))
        return float(low), float(high)

    @property
    def spread(self) -> float:
        """The distance of the quartiles, as a share of the median."""
        low, high = self.quartiles
        return (high - low) / self.seconds

    def __str__(self) -> str:
        low, high = map(text.duration, self.quartiles)
        lines = [
            f"{self.name} on {self.device}: {text.duration(self.seconds)} measured, the median of {len(self.times)} "
            f"rounds; half of them lie between {low} and {high}.",
            f"Clock: {self.how}. Arguments in {self.copies} copies, in turn. {self.versions}.",
            self._possible(),
        ]
        return folded("\n".join(lines))

    __repr__ = __str__

    def _possible(self) -> str:
        if self.bound is None:
            return f"The peaks of {self.device} are not known here, so it cannot be said whether this time is possible."
        return f"{self.bound}: this reaches {text.percent(self.bound.seconds / self.seconds)} of that."
