"""Which steps of a grid each of two cores runs, as libtpu divides them for a v5p.

Read in the compiler's program for a v5p (libtpu 0.0.48, grids of 1 to 4 axes), where the index of a step is computed
from the number of the core: tests/test_grid_cores.py compares the number of steps with that program's loops.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Cores(NamedTuple):
    """The steps of two cores, in the order in which each runs them. A step is its number in the grid's own order."""

    first: np.ndarray  # int64[n]
    second: np.ndarray  # int64[n], or int64[0] if the second core has nothing to do; it may end with steps of the first


def cores(grid: Sequence[int], parallel: Sequence[bool]) -> Cores:
    """Return the steps of each core; ``parallel`` says of each axis whether it is marked "parallel".

    The first parallel axis with an even number of steps is cut into halves, and each core runs its half of the grid in
    the usual order. If all have odd numbers, they are joined into one axis, whose first half, the longer one, belongs
    to the first core; the other axes run inside it. The second core then has one place less along that axis, and fills
    it with the place 0 again: it repeats steps that the first core runs too. Without a parallel axis of two or more
    steps, the first core runs everything.
    """
    steps = np.arange(math.prod(grid)).reshape(grid)
    shared = [axis for axis, size in enumerate(grid) if parallel[axis] and size > 1]
    if not shared:
        return Cores(steps.ravel(), steps.ravel()[:0])
    even = next((axis for axis in shared if grid[axis] % 2 == 0), None)
    if even is not None:
        first, second = np.split(steps, 2, axis=even)
        return Cores(first.ravel(), second.ravel())
    others = [axis for axis in range(len(grid)) if axis not in shared]
    joined = steps.transpose(shared + others).reshape(math.prod(grid[axis] for axis in shared), -1)
    half = len(joined) // 2 + 1
    return Cores(joined[:half].ravel(), joined[[*range(half, len(joined)), 0]].ravel())
