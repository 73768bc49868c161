"""Garbage that a kernel recognises because it is NaN. On a chip it may be any number."""

import contextlib
from collections.abc import Iterator
from unittest import mock

import numpy as np
from jax._src.pallas.mosaic.interpret import utils as interpreter

from course_lib import grid
from course_lib.judges.verdict import Complaint

_PLAUSIBLE = 1234.5  # nothing in the arguments of a judge is likely to look like it, and a sum would show it

COMPLAINT = Complaint(
    "Memory that nobody has written, and what lies past the end of an array, is NaN in the simulator, and the kernel "
    f"asks whether a number is NaN. With {_PLAUSIBLE} there instead, its numbers are wrong. A chip has whatever was "
    "there before.",
    "tell garbage by where it lies, not by what it is: compare the index with the length of the array.",
)


def is_told_by_nan(walk: grid.Walk) -> bool:
    """Whether a kernel of the function asks if a number is NaN: compares it with itself, or calls isfinite."""
    return any(
        eqn.primitive.name == "is_finite" or (eqn.primitive.name in ("eq", "ne") and eqn.invars[0] is eqn.invars[1])
        for call in walk.calls
        for eqn in grid.equations(call.kernel)
    )


@contextlib.contextmanager
def that_is_a_number() -> Iterator[None]:
    """While this is active, the simulator fills memory of floats with a number in place of NaN."""
    nan = interpreter.get_uninitialized_value

    def number(dtype, uninitialized_memory):
        value = nan(dtype, uninitialized_memory)
        return np.asarray(_PLAUSIBLE, dtype) if value != value else value

    with mock.patch.object(interpreter, "get_uninitialized_value", number):
        yield
