"""A list of integers as arithmetic, for a simulator that does not see the contents of memory.

The values that an index map looks up become a straight line plus a remainder. The remainder becomes steps, or bits
packed into constants, whichever takes fewer operations.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator

import numpy as np
from jax import lax

from course_lib.arrays import Array, Int32

MOST_OPERATIONS = 160  # of one lookup: more would be extra work that the kernel does not have
_WORD = 32  # bits of a constant


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lookup:
    """A table lookup: ``at(i)`` is the number at int32 place i; ``operations`` are those of the scalar core."""

    at: Callable[[Int32[Array, ""]], Int32[Array, ""]]
    operations: int


def lookup(places: np.ndarray, numbers: np.ndarray) -> Lookup | None:
    """Return a lookup of ``numbers`` (32-bit int[n]) at ``places`` (int[n], ascending), with any result elsewhere.

    None if it would take more than MOST_OPERATIONS.
    """
    if not len(places):
        return Lookup(at=lambda i: i * 0, operations=0)
    found = [way for slope in _slopes(places, numbers) for way in _ways(places, numbers, slope)]
    best = min(found, key=lambda way: way.operations)
    return best if best.operations <= MOST_OPERATIONS else None


def _slopes(places: np.ndarray, numbers: np.ndarray) -> list[int]:
    run = int(places[-1] - places[0])
    overall = round(int(numbers[-1] - numbers[0]) / run) if run else 0
    return sorted({0, 1, overall})


def _ways(places: np.ndarray, numbers: np.ndarray, slope: int) -> Iterator[Lookup]:
    """Yield the lookups by steps and by packed bits on top of a straight line."""
    rest = numbers.astype(np.int64) - slope * places
    base, line = int(rest.min()), 2 * (slope not in (0, 1)) + (slope == 1)
    for at, operations in (_in_steps(places, rest - base), _packed(places, rest - base)):
        yield Lookup(at=functools.partial(_on_line, slope, base, at), operations=operations + line + 2)


def _on_line(slope: int, base: int, rest: Callable, i):
    line = i * np.int32(slope) + np.int32(base) if slope else np.int32(base)
    return line + rest(i)


def _in_steps(places: np.ndarray, rest: np.ndarray) -> tuple[Callable, int]:
    """Look the number up by a comparison and a select for each change between places."""
    changes = np.flatnonzero(np.diff(rest)) + 1

    def at(i):
        number = np.int32(rest[0])
        for n in changes:
            number = lax.select(i >= np.int32(places[n]), np.int32(rest[n]), number)
        return number

    return at, 2 * len(changes)


def _packed(places: np.ndarray, rest: np.ndarray) -> tuple[Callable, int]:
    """Pack several numbers into each word; comparisons choose the word, a shift the number in it."""
    bits = next(n for n in (1, 2, 4, 8, 16, _WORD) if int(rest.max()) < 1 << n)
    each = _WORD // bits
    words = np.zeros(int(places[-1]) // each + 1, np.uint64)
    np.bitwise_or.at(words, places // each, rest.astype(np.uint64) << (places % each * bits).astype(np.uint64))
    words = words.astype(np.uint32).view(np.int32)

    def at(i):
        word = words[-1]
        for n in reversed(range(len(words) - 1)):
            word = lax.select(i < np.int32((n + 1) * each), words[n], word)
        if each == 1:
            return word
        shifted = lax.shift_right_arithmetic(word, (i & np.int32(each - 1)) * np.int32(bits))
        return shifted & np.int32((1 << bits) - 1)

    return at, 2 * (len(words) - 1) + 4 * (each > 1)
