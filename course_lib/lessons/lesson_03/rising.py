"""The point where two times are equal: the root of an increasing function."""

from collections.abc import Callable


def root(rising: Callable[[float], float], low: float = 1.0, high: float = 1e6) -> float:
    """Return the point where a function changes from negative to positive, by bisection."""
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return low
