"""Right answers written in unusual ways. No judge may refuse one: tests/test_fairness.py asks them all.

Each file holds one way of being unusual, and its answers in ``RIGHT``. An answer belongs here only if it is right on
the chip: no output block is left and come back to, nothing is read before it is written, what is called parallel is.
A reference states the precision that is asked; an answer may be better than that, and round elsewhere.
"""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Right:
    """One right answer: ``fn(*args)`` computes in a kernel what ``reference(*args)`` computes in jnp."""

    name: str  # what is unusual about it
    fn: Callable
    reference: Callable
    args: tuple
