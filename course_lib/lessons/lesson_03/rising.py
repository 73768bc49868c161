"""Where two times are equal: the root of a function that rises."""

from collections.abc import Callable


def root(rising: Callable[[float], float], low: float = 1.0, high: float = 1e6) -> float:
    """Where a function passes from below 0 to above, by halving."""
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return low
