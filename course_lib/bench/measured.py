"""A measurement as plain data: the times of many runs, their median and spread, and how they were taken."""

import dataclasses

import numpy as np

from course_lib import text
from course_lib.bench.possible import Bound
from course_lib.text import folded


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Measured:
    """Times of a function on a real device, in seconds; never from a simulator or a CPU."""

    name: str
    device: str  # its kind as JAX names it: "TPU v5 lite"
    times: tuple[float, ...]  # seconds on the device, one per round
    how: str  # which clock, and why that one
    copies: int  # of the arguments, used in rotation
    bound: Bound | None  # the shortest possible time; None if the device's peaks are unknown
    versions: str

    @property
    def seconds(self) -> float:
        """The median time."""
        return float(np.median(self.times))

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and third quartile of the times, in seconds."""
        low, high = np.percentile(self.times, (25, 75))
        return float(low), float(high)

    @property
    def spread(self) -> float:
        """The interquartile range as a share of the median."""
        low, high = self.quartiles
        return (high - low) / self.seconds

    def __str__(self) -> str:
        low, high = map(text.duration, self.quartiles)
        lines = [
            f"{self.name} on {self.device}: {text.duration(self.seconds)} measured, the median of {len(self.times)} "
            f"rounds; half of them lie between {low} and {high}.",
            f"Clock: {self.how}. {self.copies} copies of the arguments, in rotation. {self.versions}.",
            self._possible(),
        ]
        return folded("\n".join(lines))

    __repr__ = __str__

    def _possible(self) -> str:
        if self.bound is None:
            return f"The peaks of {self.device} are not known here, so nothing says whether this time is possible."
        return f"{self.bound}: this reaches {text.percent(self.bound.seconds / self.seconds)} of that."
