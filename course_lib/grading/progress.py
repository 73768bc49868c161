"""A progress bar for grading a class, with an estimate of the remaining time."""

import time

_WIDTH = 20  # characters of the bar


class Progress:
    """A bar for ``total`` notebooks, starting now."""

    def __init__(self, total: int):
        self.total, self.begun = total, time.monotonic()

    def __call__(self, done: int) -> str:
        """Return a line such as "[####....] 34/200, about 7 min left:"."""
        bar = "#" * (_WIDTH * done // self.total)
        left = (time.monotonic() - self.begun) / done * (self.total - done)
        about = f", about {left / 60:.0f} min left" if left > 90 else f", about {left:.0f} s left" if left > 1 else ""
        return f"[{bar:.<{_WIDTH}}] {done}/{self.total}{about}:"
