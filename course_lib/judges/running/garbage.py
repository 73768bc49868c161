"""Kernels that keep garbage out only because it is NaN in the simulator. On a chip it may be any number."""

import contextlib
from collections.abc import Iterator
from unittest import mock

import jax.numpy as jnp
import numpy as np
from jax._src.pallas.mosaic.interpret import utils as interpreter

from course_lib import grid
from course_lib.judges.verdict import Complaint

_PLAUSIBLE = 1234.5  # unlike any likely argument, and large enough to show in a sum

COMPLAINT = Complaint(
    "Memory that nobody has written, and what lies past the end of an array, is NaN in the simulator, and the kernel "
    f"asks whether a number is NaN. With {_PLAUSIBLE} there instead, its numbers are wrong. A chip has whatever was "
    "there before.",
    "tell garbage by where it lies, not by what it is: compare the index with the length of the array.",
)

BY_LUCK = Complaint(
    "Past the end of an array lies NaN in the simulator, and no comparison with NaN is true. That alone keeps garbage "
    "out here: with inf there instead, the kernel's numbers are wrong. A chip has whatever was there before.",
    "mask by where it lies: a comparison such as y > 0 is no mask. Compare the index with the length of the array.",
)

_COMPARISONS = ("gt", "ge", "lt", "le")


def suspicion(walk: grid.Walk) -> tuple[float, Complaint] | None:
    """Return (what to simulate with in place of NaN, what to say if that goes wrong); None if no kernel notices NaN.

    A kernel with comparisons gets inf, because a large number times another mask's 0 is 0, and inf times 0 is not.
    """
    if any(_is_told_by_nan(call) for call in walk.calls):
        return _PLAUSIBLE, COMPLAINT
    if any(_compares_past_the_end(call) for call in walk.calls):
        return np.inf, BY_LUCK
    return None


def _is_told_by_nan(call: grid.Call) -> bool:
    """Whether a kernel asks if a number is NaN: compares it with itself, or calls isfinite."""
    return any(
        eqn.primitive.name == "is_finite" or (eqn.primitive.name in ("eq", "ne") and eqn.invars[0] is eqn.invars[1])
        for eqn in grid.equations(call.kernel)
    )


def _compares_past_the_end(call: grid.Call) -> bool:
    """Whether a kernel compares floats, which NaN decides, and an input's block extends past the end of its array."""
    return any(map(_hangs_over, call.operands)) and any(
        eqn.primitive.name in _COMPARISONS and jnp.issubdtype(eqn.invars[0].aval.dtype, jnp.floating)
        for eqn in grid.equations(call.kernel)
    )


def _hangs_over(operand: grid.Operand) -> bool:
    return any(n % block for n, block in zip(operand.shape, operand.block_shape, strict=True))


@contextlib.contextmanager
def that_is(filling: float | None) -> Iterator[None]:
    """Make the simulator fill memory of floats with ``filling`` in place of NaN; None changes nothing."""
    if filling is None:
        yield
        return
    nan = interpreter.get_uninitialized_value

    def number(dtype, uninitialized_memory):
        value = nan(dtype, uninitialized_memory)
        return np.asarray(filling, dtype) if value != value else value

    with mock.patch.object(interpreter, "get_uninitialized_value", number):
        yield
